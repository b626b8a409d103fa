package cluster

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/test/files"
)

// updating is a drained node with kubelet 1.35 whose pending configuration has
// kubelet 1.36, and the record of its updates.
func updating() (world, updates) {
	w := newWorld()
	w.pending.update = &inplace.Facts{Kubelet: "1.36"}
	w.node.Status.Conditions = []core.NodeCondition{{
		Type:   updateCondition,
		Reason: drainedReason,
	}}
	return w, updates{hasRecord: true, record: inplace.Record{Done: inplace.Facts{Kubelet: "1.35"}}}
}

// begun is updating once the node runs the pending configuration.
func begun() (world, updates) {
	w, u := updating()
	w.released = w.pending
	w.status.Version = "new"
	w.status.Offered = "new"
	u.record.Version = "new"
	return w, u
}

func TestNextStepOfAnUpdate(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(w *world, u *updates)
		want inplace.Step
	}{
		{"on a drained Node", func(*world, *updates) {}, inplace.Configure},
		{"on a Node that is not drained", func(w *world, _ *updates) {
			w.node.Status.Conditions = nil
		}, inplace.Await},
		{"before the Secret is known", func(w *world, _ *updates) {
			w.pending = nil
		}, inplace.Nothing},
		{"of a configuration without updates", func(w *world, _ *updates) {
			w.pending.update = nil
		}, inplace.Nothing},
		{"without a configuration to compare with", func(_ *world, u *updates) {
			u.hasRecord = false
		}, inplace.Nothing},
		{"with an unreadable configuration of the kubelet", func(w *world, _ *updates) {
			w.pending.unclear = errors.New("unreadable")
		}, inplace.Await},
		{"before it is known whether there is a Node", func(w *world, _ *updates) {
			w.node = nil
			w.nodeKnown = false
		}, inplace.Await},
		{"without a Node", func(w *world, _ *updates) { w.node = nil }, inplace.Nothing},
		{"before the first status", func(w *world, _ *updates) {
			w.status = status.Status{}
		}, inplace.Await},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, u := updating()
			tt.edit(&w, &u)
			if got := u.next(w); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestDrainedNode(t *testing.T) {
	for _, tt := range []struct {
		name, label string
		drained     bool
		want        bool
	}{
		{"with its pods", "", false, false},
		{"without its pods", "", true, true},
		{"after a failed update", failedResult, false, true},
		{"after a successful update, which the drainer has not seen", successResult, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, _ := updating()
			if !tt.drained {
				w.node.Status.Conditions = nil
			}
			w.node.Labels = map[string]string{resultLabel: tt.label}
			if got := isDrained(w.node); got != tt.want {
				t.Error(got)
			}
		})
	}
}

func TestDecideUpdate(t *testing.T) {
	for _, tt := range []struct {
		name string
		from func() (world, updates)
		edit func(w *world, u *updates)

		action  updateAction
		step    inplace.Step
		reason  string
		blocked string
		wake    time.Duration
	}{
		{
			name:   "nothing to update",
			from:   updating,
			edit:   func(w *world, _ *updates) { w.pending.update = nil },
			action: updateWait,
		},
		{
			name:    "a Node that is not drained",
			from:    updating,
			edit:    func(w *world, _ *updates) { w.node.Status.Conditions = nil },
			action:  updateWait,
			blocked: "update of kubelet's version waits for the Node to be drained",
		},
		{
			name: "a Node that is not drained again",
			from: updating,
			edit: func(w *world, _ *updates) {
				w.node.Labels = map[string]string{resultLabel: successResult}
			},
			action: updateWait,
			blocked: "update of kubelet's version waits for the Node to be drained again, " +
				"without its label " + resultLabel,
		},
		{
			name:    "an unreadable configuration of the kubelet",
			from:    updating,
			edit:    func(w *world, _ *updates) { w.pending.unclear = errors.New("unreadable") },
			action:  updateWait,
			blocked: "update of unreadable",
		},
		{
			name:   "a drained Node, whose configuration is released next",
			from:   updating,
			action: updateWait,
		},
		{
			name: "a configuration that the node refuses",
			from: updating,
			edit: func(w *world, _ *updates) {
				w.status.Offered = "new"
				w.status.Refused = true
				w.status.Error = &status.Error{Problem: "empty"}
			},
			action: updateFail,
			reason: "empty",
		},
		{
			name:   "a node that runs its configuration",
			from:   begun,
			action: updateRun,
			step:   inplace.Kubelet,
		},
		{
			name:    "while a step is under way",
			from:    begun,
			edit:    func(w *world, _ *updates) { w.updating = inplace.Kubelet },
			action:  updateWait,
			blocked: "update in place: kubelet",
		},
		{
			name:   "while the node is about to reboot",
			from:   begun,
			edit:   func(_ *world, u *updates) { u.rebooting = true },
			action: updateWait,
		},
		{
			name:   "while the certificate is renewed",
			from:   begun,
			edit:   func(w *world, _ *updates) { w.renewing = true },
			action: updateWait,
		},
		{
			name:   "while the session ends",
			from:   begun,
			edit:   func(w *world, _ *updates) { w.ending = true },
			action: updateWait,
		},
		{
			name:   "a step that failed",
			from:   begun,
			edit:   func(_ *world, u *updates) { u.failure = &updateFailure{"new", "it hangs", 0} },
			action: updateFail,
			reason: "it hangs",
		},
		{
			name: "a step that failed for an earlier configuration",
			from: begun,
			edit: func(_ *world, u *updates) {
				u.failure = &updateFailure{
					"older",
					"it hangs",
					0,
				}
			},
			action: updateRun,
			step:   inplace.Kubelet,
		},
		{
			name: "before a failed step is retried",
			from: begun,
			edit: func(w *world, u *updates) {
				u.retryAt = noon.Add(time.Minute)
				w.node.Annotations[reasonAnnotation] = "it hangs"
			},
			action:  updateWait,
			blocked: "update in place: it hangs",
			wake:    time.Minute,
		},
		{
			name:   "a record that was not written",
			from:   begun,
			edit:   func(_ *world, u *updates) { u.unsaved = errors.New("disk full") },
			action: updateSave,
		},
		{
			name: "a step whose record was not written is reported first",
			from: begun,
			edit: func(_ *world, u *updates) {
				u.unsaved = errors.New("disk full")
				u.failure = &updateFailure{"new", "disk full", 0}
			},
			action: updateFail,
			reason: "disk full",
		},
		{
			name: "another release",
			from: begun,
			edit: func(w *world, _ *updates) {
				w.pending.update = &inplace.Facts{OS: "2.0.0", Kubelet: "1.35"}
			},
			action: updateRun,
			step:   inplace.OS,
		},
		{
			name: "another release, before the node has its turn",
			from: begun,
			edit: func(w *world, _ *updates) {
				w.pending.update = &inplace.Facts{OS: "2.0.0", Kubelet: "1.35"}
				w.pending.policy = &turns.Policy{}
				w.turn.kept = turns.Turn{
					Phase:  turns.Holding,
					Holder: turns.Holder{Version: "1.5.0"},
				}
			},
			action:  updateWait,
			blocked: "update in place: a turn to restart",
		},
		{
			name: "another release, in the turn of the node",
			from: begun,
			edit: func(w *world, _ *updates) {
				w.pending.update = &inplace.Facts{OS: "2.0.0", Kubelet: "1.35"}
				w.pending.policy = &turns.Policy{}
				w.turn.kept = turns.Turn{
					Phase:  turns.Holding,
					Holder: turns.Holder{Target: "new"},
				}
			},
			action: updateRun,
			step:   inplace.OS,
		},
		{
			name: "another release, from which the node came back",
			from: begun,
			edit: func(w *world, u *updates) {
				w.pending.update = &inplace.Facts{OS: "2.0.0", Kubelet: "1.35"}
				w.node.Annotations[triedAnnotation] = "2.0.0"
				u.record.Boot = "boot 0"
			},
			action: updateFail,
			reason: "the node came back with version 1.0.0, not 2.0.0",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w, u := tt.from()
			if tt.edit != nil {
				tt.edit(&w, &u)
			}

			want := updateDecision{
				action:  tt.action,
				step:    tt.step,
				reason:  tt.reason,
				outcome: outcome{blocked: tt.blocked},
			}
			if tt.wake != 0 {
				want.outcome.wake = noon.Add(tt.wake)
			}
			if got := u.decide(w); got != want {
				t.Errorf("%+v\nwant %+v", got, want)
			}
		})
	}
}

func TestRecordOnceAConfigurationIsReleased(t *testing.T) {
	for _, tt := range []struct {
		name   string
		record inplace.Record
		step   inplace.Step
		want   string
		isNew  bool
	}{
		{"an update begins", inplace.Record{}, inplace.Configure, "new", true},
		{
			"an update replaces another",
			inplace.Record{Version: "older"},
			inplace.Configure,
			"new",
			true,
		},
		{"an update goes on", inplace.Record{Version: "new"}, inplace.Configure, "new", false},
		{"no update", inplace.Record{}, inplace.Nothing, "", false},
		{"an update is withdrawn", inplace.Record{Version: "older"}, inplace.Nothing, "", true},
		{
			"no update, with a record that could not be read",
			inplace.Record{Version: unknownVersion},
			inplace.Nothing,
			unknownVersion,
			false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := updates{hasRecord: true, record: tt.record}
			u.record.Cleared = true
			got, isNew := u.begun(tt.step, newWorld())
			if got.Version != tt.want || isNew != tt.isNew || got.Cleared == isNew {
				t.Errorf("%+v, new %v", got, isNew)
			}
		})
	}
}

// The kubelet does not start with the state of another policy.
func TestStateOfAnotherCPUManagerPolicyIsRemoved(t *testing.T) {
	root := files.Root(t)
	files.Write(t, filepath.Join(root.Name(), cpuManagerState), "{}")
	w, u := updating()
	w.pending.update = &inplace.Facts{Kubelet: "1.35", CPUManagerPolicy: "static"}
	c := updateController{updates: &u, env: Env{Root: root}}

	if err := c.begin(inplace.Nothing, w); err != nil {
		t.Fatal(err)
	}
	if _, err := root.Lstat(cpuManagerState); err != nil {
		t.Errorf("removed without an update: %v", err)
	}

	if err := c.begin(inplace.Configure, w); err != nil {
		t.Fatal(err)
	}
	if _, err := root.Lstat(cpuManagerState); err == nil {
		t.Error("it is still there")
	}

	saved, ok, err := loadRecord(root)
	if err != nil || !ok || saved.Version != "new" {
		t.Errorf("record %+v, %v, %v", saved, ok, err)
	}
}

func TestDecideBaseline(t *testing.T) {
	facts := &inplace.Facts{Kubelet: "1.36"}

	for _, tt := range []struct {
		name  string
		edit  func(w *world)
		known bool
		want  baselineAction
	}{
		{"the first configuration with updates", func(*world) {}, false, baselineCreate},
		{"a later one", func(*world) {}, true, baselineKeep},
		{"the first without", func(w *world) { w.pending.update = nil }, true, baselineRemove},
		{"a later one without", func(w *world) { w.pending.update = nil }, false, baselineKeep},
		{"one that is not ready", func(w *world) { w.ready = "" }, false, baselineKeep},
		{
			"one that is not reported yet",
			func(w *world) { w.reported = "old" },
			false,
			baselineKeep,
		},
		{
			"one that is unclear",
			func(w *world) {
				w.pending.unclear = errors.New("unreadable")
			},
			false,
			baselineKeep,
		},
		{"before the Secret is known", func(w *world) { w.pending = nil }, true, baselineKeep},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := runningNew()
			w.ready = "new"
			w.reported = "new"
			w.pending.update = facts
			tt.edit(&w)
			if got := decideBaseline(w, tt.known); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestDamagedRecordNeedsADrainedNode(t *testing.T) {
	root := files.Root(t)
	files.Write(t, filepath.Join(root.Name(), recordName), "{")

	_, _, err := loadRecord(root)
	if err == nil || !strings.Contains(err.Error(), "/"+recordName+" is damaged") {
		t.Errorf("read: %v", err)
	}

	u := loadUpdates(root, zap.NewNop())
	w, _ := updating()
	w.node.Status.Conditions = nil
	if got := u.next(w); got != inplace.Await {
		t.Errorf("next step %q", got)
	}
}

// The reason may be the error of a fetch. Whoever may read the Node sees it.
func TestTheReasonOfAFailedUpdateHasNoPassword(t *testing.T) {
	w, _ := updating()
	w.node.APIVersion = "v1"
	w.node.Kind = "Node"
	server := &oneNode{node: w.node.DeepCopy()}
	c := updateController{conn: connection{api: newTestAPI(t, server)}}

	out, err := c.fail(t.Context(), &w, "fetch a.pack from http://ada:s3cret@host: no answer")
	if err != nil {
		t.Fatal(err)
	}
	const want = "fetch a.pack from http://ada:xxxxx@host: no answer"
	if have := server.node.Annotations[reasonAnnotation]; have != want {
		t.Errorf("the Node says %q", have)
	}
	if out.blocked != "update in place: "+want {
		t.Errorf("the status says %q", out.blocked)
	}
}
