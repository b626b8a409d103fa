package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/loam-os/loam/agent/status"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func annotated(key, value string) *core.Node {
	return &core.Node{ObjectMeta: meta.ObjectMeta{Annotations: map[string]string{key: value}}}
}

func TestDelay(t *testing.T) {
	for _, tt := range []struct {
		name string
		node *core.Node
		want time.Duration
	}{
		{"no Node", nil, time.Minute},
		{"no annotation", &core.Node{}, time.Minute},
		{"an invalid duration", annotated(delayAnnotation, "soon"), time.Minute},
		{"a negative duration", annotated(delayAnnotation, "-1s"), time.Minute},
		{"a duration", annotated(delayAnnotation, "17.5s"), 17500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := delay(tt.node, time.Minute); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestLeaseStateOf(t *testing.T) {
	lease := func(holder string) *coordination.Lease {
		renewed := meta.NewMicroTime(noon)
		term := int32(600)
		return &coordination.Lease{Spec: coordination.LeaseSpec{
			HolderIdentity:       &holder,
			RenewTime:            &renewed,
			LeaseDurationSeconds: &term,
		}}
	}

	for _, tt := range []struct {
		name      string
		lease     *coordination.Lease
		unchanged time.Duration
		want      leaseState
		rest      time.Duration
	}{
		{"no Lease", nil, 0, leaseFree, 0},
		{"released", &coordination.Lease{}, 0, leaseFree, 0},
		{"without a holder", lease(""), 0, leaseFree, 0},
		{"ours", lease("me"), time.Hour, leaseOurs, 0},
		{"another's", lease("other"), time.Minute, leaseTaken, 9 * time.Minute},
		{"another's, expired", lease("other"), 10 * time.Minute, leaseFree, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, rest := leaseStateOf(tt.lease, "me", tt.unchanged)
			if got != tt.want || rest != tt.rest {
				t.Errorf("%s for %s", got, rest)
			}
		})
	}
}

func TestLeaseObservationRestartsOnChange(t *testing.T) {
	me := "me"
	other := "other"
	first := &coordination.Lease{
		ObjectMeta: meta.ObjectMeta{Name: "pool"},
		Spec:       coordination.LeaseSpec{HolderIdentity: &me},
	}

	touched := first.DeepCopy()
	given := first.DeepCopy()
	another := first.DeepCopy()
	touched.ResourceVersion = "2"
	given.Spec.HolderIdentity = &other
	another.Name = "pool-2"

	for _, tt := range []struct {
		name  string
		lease *coordination.Lease
		want  time.Duration
	}{
		{"the same", first, time.Minute},
		{"written without a change of its spec", touched, time.Minute},
		{"with another holder", given, time.Hour},
		{"of another name", another, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := (observedLease{}).next(first, time.Minute).next(tt.lease, time.Hour).at
			if got != tt.want {
				t.Errorf("seen at %s, want %s", got, tt.want)
			}
		})
	}
}

func TestDesiredMetaOf(t *testing.T) {
	c := Config{Zone: "z", KubernetesVersion: "1.36.3"}
	full := &core.Node{ObjectMeta: meta.ObjectMeta{
		Labels: map[string]string{
			roleLabel + "worker": "",
			zoneLabel:            "z",
			versionLabel:         "1.36.3",
		},
		Annotations: map[string]string{appliedAnnotation: "sum"},
	}}

	offered := func(sum string) *pendingConfig { return &pendingConfig{sum: sum, label: sum} }
	refused := status.Status{Phase: status.Failed, Refused: true, Offered: "sum"}
	for _, tt := range []struct {
		name    string
		node    *core.Node
		status  status.Status
		offered *pendingConfig
		want    string
	}{
		{"a new Node", &core.Node{}, status.Status{Version: "sum"}, offered("sum"),
			`{"metadata":{"annotations":{"checksum/cloud-config-data":"sum"},"labels":{"node-role.kubernetes.io/worker":"","topology.kubernetes.io/zone":"z","worker.gardener.cloud/kubernetes-version":"1.36.3"}}}`},
		{"a Node with all labels", full, status.Status{Version: "sum"}, offered("sum"), ""},
		{
			"a Node of the control plane",
			full,
			status.Status{Version: "sum", ControlPlane: true},
			offered("sum"),
			`{"metadata":{"labels":{"node-role.kubernetes.io/control-plane":""}}}`,
		},
		{
			"another configuration",
			full,
			status.Status{Version: "new"},
			offered("new"),
			`{"metadata":{"annotations":{"checksum/cloud-config-data":"new"}}}`,
		},
		{
			"the checksum in the Secret's annotation",
			full,
			status.Status{Version: "new"},
			&pendingConfig{sum: "new", label: "said"},
			`{"metadata":{"annotations":{"checksum/cloud-config-data":"said"}}}`,
		},
		{"while it is applied", full, status.Status{Phase: status.Applying}, offered("new"), ""},
		{"before the Secret is known", full, status.Status{Version: "sum"}, nil, ""},
		{
			"a reverted configuration",
			full,
			refused,
			offered("sum"),
			`{"metadata":{"annotations":{"checksum/cloud-config-data":null}}}`,
		},
		{"another reverted configuration", full, refused, offered("new"), ""},
		{
			"a unit that failed later",
			full,
			status.Status{Phase: status.Failed, Offered: "sum"},
			offered("sum"),
			"",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := string(desiredMetaOf(c, tt.node, tt.status, tt.offered).patch(tt.node))
			if got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestUnitsCondition(t *testing.T) {
	unit := func(active, sub string, settled bool) status.Status {
		return status.Status{
			Generation: "000001-0123456789ab",
			Units: []status.Unit{{
				Name:    "a.service",
				Active:  active,
				Sub:     sub,
				Settled: settled,
				Since:   time.Minute,
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
		{"no configuration, as the first is invalid", first, time.Hour,
			[]string{
				"False", "OSCInvalid",
				"Secret kube-system/pool:7: spec.units[0].name: empty; hint: name it",
			}},
		{
			"no units",
			status.Status{Generation: "000001-0123456789ab"},
			time.Hour,
			[]string{"True", "AllUnitsHealthy", "all units are as wanted"},
		},
		{"an invalid document", refusing(status.Invalid), time.Hour,
			[]string{
				"False", "OSCInvalid",
				"Secret kube-system/pool:7: spec.units[0].name: empty; hint: name it",
			}},
		{
			"an invalid document before the newest",
			older,
			time.Hour,
			[]string{"True", "AllUnitsHealthy", "all units are as wanted"},
		},
		{"a reverted change, and a unit that failed before", both, time.Hour,
			[]string{"False", "OSCReverted", "unit b.service failed, a.service is failed/failed"}},
		{"a held configuration", held, time.Hour,
			[]string{
				"False", "OSCHeld", "configuration 0123456789ab is held by an operator: " +
					"rolled back by the operator; hint: `loam apply` ends that",
			}},
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

func TestUnitsToRestart(t *testing.T) {
	got := restarts(" a, b.timer,, gardener-node-agent, c.service")
	if diff := cmp.Diff([]string{"a.service", "b.timer", "c.service"}, got); diff != "" {
		t.Error(diff)
	}
	if got := restarts(""); got != nil {
		t.Error(got)
	}
}

func TestOlderVersionsOfTheNodeAreIgnored(t *testing.T) {
	node := func(uid, version string) *core.Node {
		return &core.Node{ObjectMeta: meta.ObjectMeta{
			UID:             types.UID(uid),
			ResourceVersion: version,
		}}
	}

	for _, tt := range []struct {
		name     string
		n, known *core.Node
		want     bool
	}{
		{"the first", node("a", "1"), nil, false},
		{"a newer one", node("a", "10"), node("a", "9"), false},
		{"the same", node("a", "9"), node("a", "9"), false},
		{"an older one", node("a", "9"), node("a", "10"), true},
		{"another Node", node("b", "9"), node("a", "10"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := isOlderNode(tt.n, tt.known); got != tt.want {
				t.Error(got)
			}
		})
	}
}

func TestRenewAt(t *testing.T) {
	c := Credentials{NotBefore: noon, NotAfter: noon.Add(100 * time.Hour)}
	if got := c.renewAt(0); !got.Equal(noon.Add(80 * time.Hour)) {
		t.Error(got)
	}
	if got := c.renewAt(1); !got.Equal(noon.Add(88 * time.Hour)) {
		t.Error(got)
	}
}

func TestLabelDefaultsToTheDigest(t *testing.T) {
	s := &core.Secret{Data: map[string][]byte{dataKey: []byte("text")}}
	got := pendingConfigOf(s, noon).label
	if got != "982d9e3eb996f559e633f4d194def3761d909f5a3b647d1a851fead67c32c9d1" {
		t.Error(got)
	}
	s.Annotations = map[string]string{checksumAnnotation: "said"}
	if got := pendingConfigOf(s, noon).label; got != "said" {
		t.Error(got)
	}
}

func TestFlappingNodeIsReported(t *testing.T) {
	for _, tt := range []struct {
		name    string
		minutes []int
		want    string
	}{
		{"four times", []int{0, 1, 2, 3}, "...."},
		{"five times in ten minutes", []int{0, 2, 4, 6, 8}, "....!"},
		{"five times in a day", []int{0, 300, 600, 900, 1200}, "....."},
		{
			"reported once, and again after five more",
			[]int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9},
			"....!....!",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var f flaps
			got := ""
			for _, m := range tt.minutes {
				var often bool
				f, often = f.next(noon.Add(time.Duration(m) * time.Minute))
				if often {
					got += "!"
				} else {
					got += "."
				}
			}
			if got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// The agent asks a registry that does not answer every few seconds, and the
// error text differs each time.
func TestOneEventPerReason(t *testing.T) {
	var record refusalRecord
	for _, tt := range []struct {
		name, node, sum, reason string
		want                    bool
	}{
		{"the first", "a", "one", "OSCUnavailable", true},
		{"once more", "a", "one", "OSCUnavailable", false},
		{"another reason", "a", "one", "OSCNotApplied", true},
		{"the first reason again", "a", "one", "OSCUnavailable", false},
		{"another document", "a", "two", "OSCUnavailable", true},
		{"another Node", "b", "two", "OSCUnavailable", true},
	} {
		if got := record.isNew(tt.node, tt.sum, tt.reason); got != tt.want {
			t.Errorf("%s: new %v", tt.name, got)
		}
	}
}
