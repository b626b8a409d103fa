package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
)

func TestUnitsCondition(t *testing.T) {
	unit := func(active, sub string, settled bool) status.Status {
		return status.Status{
			Generation: "000001-0123456789ab",
			Units: []status.Unit{{
				Name:    "a.service",
				Active:  active,
				Sub:     sub,
				Settled: settled,
				Since:   status.Duration(time.Minute),
			}},
			Offered: "sum",
		}
	}

	refusing := func(kind status.Refusal) status.Status {
		s := unit("active", "running", true)
		s.Refusal = kind
		s.Error = &status.Error{
			Document: "Secret kube-system/pool",
			Line:     7,
			Path:     "spec.units[0].name",
			Problem:  "empty",
			Hint:     "name it",
		}
		return s
	}

	both := unit("failed", "failed", false)
	both.Refusal = status.Reverted
	both.Error = &status.Error{Problem: "unit b.service failed"}
	held := unit("active", "running", true)
	older := refusing(status.Invalid)
	first := refusing(status.Invalid)
	held.Held = &status.Held{Digest: "0123456789ab", Why: "rolled back by the operator"}
	older.Offered = "older"
	first.Generation = ""

	for _, tt := range []struct {
		name   string
		status status.Status
		uptime time.Duration
		want   []string
	}{
		{
			"no configuration",
			status.Status{},
			time.Hour,
			[]string{"Unknown", "NoConfiguration", "the node has no configuration"},
		},
		{
			"no configuration, as the first is invalid",
			first,
			time.Hour,
			[]string{
				"False", "OSCInvalid",
				"Secret kube-system/pool:7: spec.units[0].name: empty; hint: name it",
			},
		},
		{
			"no units",
			status.Status{Generation: "000001-0123456789ab"},
			time.Hour,
			[]string{"True", "AllUnitsHealthy", "all units are as wanted"},
		},
		{
			"an invalid document",
			refusing(status.Invalid),
			time.Hour,
			[]string{
				"False", "OSCInvalid",
				"Secret kube-system/pool:7: spec.units[0].name: empty; hint: name it",
			},
		},
		{
			"an invalid document before the newest",
			older,
			time.Hour,
			[]string{"True", "AllUnitsHealthy", "all units are as wanted"},
		},
		{
			"a reverted change, and a unit that failed before",
			both,
			time.Hour,
			[]string{"False", "OSCReverted", "unit b.service failed, a.service is failed/failed"},
		},
		{
			"a held configuration",
			held,
			time.Hour,
			[]string{
				"False", "OSCHeld", "configuration 0123456789ab is held by an operator: " +
					"rolled back by the operator; hint: `loam apply` ends that",
			},
		},
		{
			"as wanted",
			unit("active", "running", true),
			time.Hour,
			[]string{"True", "AllUnitsHealthy", "all units are as wanted"},
		},
		{
			"failed",
			unit("failed", "failed", false),
			time.Hour,
			[]string{"False", "UnhealthyUnits", "a.service is failed/failed"},
		},
		{
			"starting",
			unit("activating", "start", false),
			2 * time.Minute,
			[]string{"True", "ProgressingUnits", "a.service is activating/start"},
		},
		{
			"starting for too long",
			unit("activating", "start", false),
			6 * time.Minute,
			[]string{"False", "UnhealthyUnits", "a.service is activating/start"},
		},
		{
			"about to be restarted",
			unit("activating", "auto-restart", false),
			time.Hour,
			[]string{"True", "ProgressingUnits", "a.service is activating/auto-restart"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := unitsCondition(tt.status,
				refusalOf(tt.status, &pendingConfig{sum: "sum"}), tt.uptime)
			diff := cmp.Diff(tt.want, []string{string(c.Status), c.Reason, c.Message})
			if diff != "" {
				t.Errorf("condition (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUpgradeCondition(t *testing.T) {
	failed := func(runs string, versions ...string) status.Status {
		s := status.Status{
			ImageID:      "loam",
			ImageVersion: runs,
			Generation:   "000001-0123456789ab",
			Upgrade:      &status.Upgrade{},
		}
		for _, v := range versions {
			s.Upgrade.Failed = append(s.Upgrade.Failed,
				status.FailedSystem{Version: v, Reason: "it is ill"})
		}
		return s
	}

	for _, tt := range []struct {
		name   string
		status status.Status
		want   []string
	}{
		{
			"a node without a disk",
			status.Status{ImageID: "loam", ImageVersion: "1"},
			[]string{"False", "NoFailure", "loam 1 runs"},
		},
		{"nothing has failed", failed("1"), []string{"False", "NoFailure", "loam 1 runs"}},
		{
			"a newer one has failed",
			failed("1", "2", "3"),
			[]string{"True", "FellBack", "3 did not stay, 1 runs again: it is ill"},
		},
		{
			"older ones have failed",
			failed("4", "2", "3"),
			[]string{"False", "NoFailure", "loam 4 runs"},
		},
	} {
		c := upgradeCondition(tt.status)
		if diff := cmp.Diff(tt.want, []string{string(c.Status), c.Reason, c.Message}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}

	s := failed("1", "2")
	n := &core.Node{}
	patch := string(conditionPatch(n, s, refusal{}, time.Hour, noon))
	if !strings.Contains(patch, unitsReady) || !strings.Contains(patch, upgradeFailed) {
		t.Errorf("patch %s", patch)
	}

	if patch := string(conditionPatch(n, failed("1"), refusal{}, time.Hour,
		noon)); strings.Contains(patch, upgradeFailed) {
		t.Errorf("a Node without failures: %s", patch)
	}

	n.Status.Conditions = []core.NodeCondition{{Type: upgradeFailed, Status: core.ConditionTrue}}
	if patch := string(conditionPatch(n, failed("2"), refusal{}, time.Hour,
		noon)); !strings.Contains(patch, "loam 2 runs") {
		t.Errorf("a Node with an earlier failure: %s", patch)
	}
}

func TestDiskConditions(t *testing.T) {
	with := func(codes ...fault.Code) status.Status {
		s := status.Status{Disks: []status.Disk{}}
		for i, code := range codes {
			d := status.Disk{Name: "sd" + string(rune('a'+i)), Code: code}
			if code != "" {
				d.Problem = d.Name + " has a problem"
			}
			s.Disks = append(s.Disks, d)
		}
		return s
	}

	n := &core.Node{}
	if patch := conditionPatch(n, with(""), refusal{}, time.Hour, noon); patch != nil {
		t.Errorf("a disk that is well: %s", patch)
	}
	patch := string(conditionPatch(n, with(fault.DiskWorn, "", fault.DiskWorn), refusal{}, time.Hour,
		noon))
	if !strings.Contains(patch, `"sda has a problem, sdc has a problem"`) ||
		!strings.Contains(patch, diskWorn) || strings.Contains(patch, diskFailing) {
		t.Errorf("two disks that are worn: %s", patch)
	}

	n.Status.Conditions = []core.NodeCondition{{
		Type:    diskFailing,
		Status:  core.ConditionTrue,
		Reason:  "DiskFailing",
		Message: "sda has a problem",
	}}
	if patch := conditionPatch(n, with(fault.DiskFailing), refusal{}, time.Hour, noon); patch != nil {
		t.Errorf("the same as before: %s", patch)
	}
	if patch := conditionPatch(n, status.Status{}, refusal{}, time.Hour, noon); patch != nil {
		t.Errorf("after a restart of the agent, before the disks were asked: %s", patch)
	}
	patch = string(conditionPatch(n, with(), refusal{}, time.Hour, noon))
	if !strings.Contains(patch, "NoDiskFails") {
		t.Errorf("once the disk is replaced: %s", patch)
	}
}

func TestConditionIsPatchedOnlyWhenItChanges(t *testing.T) {
	n := &core.Node{Status: core.NodeStatus{Conditions: []core.NodeCondition{{
		Type:               unitsReady,
		Status:             core.ConditionTrue,
		Reason:             "AllUnitsHealthy",
		Message:            "all units are as wanted",
		LastTransitionTime: meta.NewTime(noon),
	}}}}

	well := status.Status{Generation: "000001-0123456789ab", Offered: "sum"}
	refused := refusal{"OSCInvalid", "empty"}
	if patch := conditionPatch(n, well, refusal{}, time.Hour, noon.Add(time.Hour)); patch != nil {
		t.Errorf("%s", patch)
	}

	patch := string(conditionPatch(n, status.Status{}, refusal{}, time.Hour, noon))
	if !strings.Contains(patch, "NoConfiguration") {
		t.Errorf("a node that has lost its configuration: %s", patch)
	}

	if patch := conditionPatch(&core.Node{}, status.Status{}, refusal{}, time.Hour,
		noon); patch != nil {
		t.Errorf("a node without a configuration: %s", patch)
	}

	if patch := string(conditionPatch(n, well, refused, time.Hour, noon)); !strings.Contains(patch,
		"OSCInvalid") {
		t.Errorf("a node that refuses its configuration: %s", patch)
	}

	n.Status.Conditions[0].Status = core.ConditionFalse
	n.Status.Conditions[0].Reason = "OSCInvalid"

	if patch := conditionPatch(n, status.Status{Generation: well.Generation}, refusal{}, time.Hour,
		noon); patch != nil {
		t.Errorf("before a document was read: %s", patch)
	}

	if patch := string(conditionPatch(n, well, refusal{}, time.Hour, noon)); !strings.Contains(
		patch, "AllUnitsHealthy",
	) {
		t.Errorf("once it is well again: %s", patch)
	}
}

// TestARestartIsNoNews has units that were as wanted start and stop, and says whether that
// changes their condition.
func TestARestartIsNoNews(t *testing.T) {
	const since = time.Hour
	for _, tt := range []struct {
		name        string
		was         string
		active, sub string
		moves       time.Duration
		want        string
	}{
		{"it stops", unitsHealthy, "deactivating", "stop-sigterm", time.Second, ""},
		{"it starts", unitsHealthy, "activating", "start", 29 * time.Second, ""},
		{"it starts for long", unitsHealthy, "activating", "start", restartTakes, unitsProgressing},
		{"it has failed", unitsHealthy, "activating", "auto-restart", time.Second, unitsProgressing},
		{"it was not well before", "UnhealthyUnits", "activating", "start", time.Second, unitsProgressing},
		{"it is not there", unitsHealthy, "inactive", "dead", time.Second, "UnhealthyUnits"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := &core.Node{Status: core.NodeStatus{Conditions: []core.NodeCondition{{
				Type:   unitsReady,
				Status: core.ConditionTrue,
				Reason: tt.was,
			}}}}
			s := status.Status{
				Generation: "000001-0123456789ab",
				Offered:    "sum",
				Units: []status.Unit{
					{Name: "a.service", Active: "active", Sub: "running", Settled: true},
					{
						Name:   "b.service",
						Active: tt.active,
						Sub:    tt.sub,
						Since:  status.Duration(since),
					},
				},
			}

			patch := string(conditionPatch(n, s, refusal{}, since+tt.moves, noon))
			if (patch != "") != (tt.want != "") || !strings.Contains(patch, tt.want) {
				t.Errorf("patch %q, want reason %q", patch, tt.want)
			}
		})
	}
}
