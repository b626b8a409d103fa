package vitals

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade"
)

func TestConfigurationHealth(t *testing.T) {
	well := upgrade.Check{State: upgrade.Well}
	ill := func(detail string) upgrade.Check {
		return upgrade.Check{
			State:  upgrade.Ill,
			Detail: detail,
		}
	}

	for _, tt := range []struct {
		name   string
		status status.Status
		want   upgrade.Health
	}{
		{
			name:   "a node without a configuration",
			status: status.Status{Phase: status.Waiting},
			want:   upgrade.Health{},
		},
		{
			name: "all is applied",
			status: status.Status{
				Phase:      status.Applied,
				Generation: "g",
				Units:      []status.Unit{{Name: "a", Settled: true}},
			},
			want: upgrade.Health{"configuration": well, "unit a": well},
		},
		{
			name: "a unit is on its way",
			status: status.Status{
				Phase:      status.Applying,
				Generation: "g",
				Units:      []status.Unit{{Name: "a", Active: "activating", Sub: "start"}},
			},
			want: upgrade.Health{
				"configuration": ill("applying"),
				"unit a":        ill("activating/start"),
			},
		},
		{
			name: "the configuration is wrong",
			status: status.Status{
				Phase:      status.Failed,
				Generation: "g",
				Error:      &status.Error{Problem: "empty"},
			},
			want: upgrade.Health{"configuration": ill("empty")},
		},
		{
			name:   "a unit has failed since",
			status: failedUnit(time.Second),
			want:   upgrade.Health{"configuration": well, "unit a": ill("failed/failed")},
		},
		{
			name:   "a unit has failed before the configuration was applied",
			status: failedUnit(0),
			want: upgrade.Health{
				"configuration": ill("a failed"),
				"unit a":        ill("failed/failed"),
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, configurationHealth(tt.status)); diff != "" {
				t.Errorf("configurationHealth (-want +got):\n%s", diff)
			}
		})
	}
}

// failedUnit returns the status of a node whose only unit has failed, and whose
// configuration was applied at the given time.
func failedUnit(appliedAt time.Duration) status.Status {
	return status.Status{
		Phase:      status.Failed,
		Generation: "g",
		AppliedAt:  status.Duration(appliedAt),
		Error:      &status.Error{Unit: "a", Problem: "a failed"},
		Units:      []status.Unit{{Name: "a", Active: "failed", Sub: "failed"}},
	}
}

func TestNodeHealth(t *testing.T) {
	for _, test := range []struct {
		name string
		c    status.Cluster
		own  bool
		want upgrade.State
	}{
		{"ready", status.Cluster{Connected: true, Node: "n", Ready: true}, false, upgrade.Well},
		{"not ready", status.Cluster{Connected: true, Node: "n"}, false, upgrade.Ill},
		{"no Node", status.Cluster{Connected: true}, false, upgrade.Ill},
		{
			"no API server, whatever was known",
			status.Cluster{
				Node:  "n",
				Ready: true,
			},
			false,
			upgrade.Unclear,
		},
		{
			"no API server, which is to run here",
			status.Cluster{
				Node:  "n",
				Ready: true,
			},
			true,
			upgrade.Ill,
		},
	} {
		if got := nodeHealth(test.c, test.own); got.State != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}

func TestGatewayHealth(t *testing.T) {
	const head = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
	const local = "eth0\t0002000A\t00000000\t0001\t0\t0\t1024\t00FFFFFF\t0\t0\t0\n"
	const route = "eth0\t00000000\t0202000A\t0003\t0\t0\t1024\t00000000\t0\t0\t0\n"
	const zeros = "00000000000000000000000000000000"
	const route6 = zeros + " 00 " + zeros + " 00 fe800000000000000000000000000002 00000400 00000001 00000000 00000003 eth0\n"
	const none6 = zeros + " 00 " + zeros + " 00 " + zeros + " ffffffff 00000001 00000000 00200200       lo\n"

	for _, test := range []struct {
		name, v4, v6 string
		want         upgrade.State
	}{
		{"a default route", head + local + route, none6, upgrade.Well},
		{"one of IPv6 only", head, route6 + none6, upgrade.Well},
		{"the kernel's own that leads nowhere", head + local, none6, upgrade.Ill},
		{"nothing", "", "", upgrade.Ill},
	} {
		if got := gatewayHealth(test.v4, test.v6); got.State != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}
