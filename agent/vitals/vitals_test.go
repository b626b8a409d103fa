package vitals

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade"
)

func TestUnitHealth(t *testing.T) {
	well := upgrade.Check{State: upgrade.Well}
	for _, test := range []struct {
		name string
		s    status.Status
		want upgrade.Health
	}{
		{"a node without a configuration", status.Status{Phase: status.Waiting}, upgrade.Health{}},
		{"all is applied", status.Status{Phase: status.Applied, Generation: "g", Units: []status.Unit{{Name: "a", Settled: true}}},
			upgrade.Health{"configuration": well, "unit a": well}},
		{"a unit is on its way", status.Status{Phase: status.Applying, Generation: "g", Units: []status.Unit{{Name: "a", Active: "activating", Sub: "start"}}},
			upgrade.Health{"configuration": {State: upgrade.Ill, Detail: "applying"}, "unit a": {State: upgrade.Ill, Detail: "activating/start"}}},
		{"the configuration is wrong", status.Status{Phase: status.Failed, Generation: "g", Error: &status.Error{Problem: "empty"}},
			upgrade.Health{"configuration": {State: upgrade.Ill, Detail: "empty"}}},
		{"a unit has failed since", failedUnit(time.Second),
			upgrade.Health{"configuration": well, "unit a": {State: upgrade.Ill, Detail: "failed/failed"}}},
		{"a unit has failed that counts", failedUnit(0),
			upgrade.Health{"configuration": {State: upgrade.Ill, Detail: "a failed"}, "unit a": {State: upgrade.Ill, Detail: "failed/failed"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, unitHealth(test.s)); diff != "" {
				t.Errorf("health (-want +got):\n%s", diff)
			}
		})
	}
}

// failedUnit is a node whose only unit has failed, and whose configuration was
// applied at that time.
func failedUnit(appliedAt time.Duration) status.Status {
	return status.Status{
		Phase:      status.Failed,
		Generation: "g",
		AppliedAt:  appliedAt,
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
		{"no API server, whatever was known", status.Cluster{Node: "n", Ready: true}, false, upgrade.Unclear},
		{"no API server, which is to run here", status.Cluster{Node: "n", Ready: true}, true, upgrade.Ill},
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
