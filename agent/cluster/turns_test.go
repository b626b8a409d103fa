package cluster

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/test/apiserver"
)

// withPolicy is w of a pool whose nodes take turns, for a change that restarts
// the kubelet.
func withPolicy(w world) world {
	w.pending.policy = &turns.Policy{MaxUnavailable: turns.Amount{Number: 1}}
	w.turn.kept.Holder.Target = w.pending.sum
	w.turn.classified = classified{
		sum:        w.pending.sum,
		generation: w.status.Generation,
		class:      turns.Kubelet,
	}
	return w
}

func TestAConfigurationNeedsATurn(t *testing.T) {
	ready := []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}}
	for _, tt := range []struct {
		name   string
		world  world
		edit   func(w *world)
		update inplace.Step
		want   turns.Need
	}{
		{"a change", newWorld(), func(*world) {}, inplace.Nothing, turns.NeedTurn},
		{"without a policy", newWorld(), func(w *world) {
			w.pending.policy = nil
		}, inplace.Nothing, turns.NeedNothing},
		{"with a policy that cannot be read", newWorld(), func(w *world) {
			w.pending.policyErr = os.ErrInvalid
		}, inplace.Nothing, turns.NeedNothing},
		{"a change that disturbs nothing", newWorld(), func(w *world) {
			w.turn.classified.class = turns.None
		}, inplace.Nothing, turns.NeedNothing},
		{"a change that is not classified", newWorld(), func(w *world) {
			w.turn.classified.sum = "old"
		}, inplace.Nothing, turns.NeedNothing},
		{"a change classified by another generation", newWorld(), func(w *world) {
			w.turn.classified.generation = "000000"
		}, inplace.Nothing, turns.NeedNothing},
		{"a change that has failed here", newWorld(), func(w *world) {
			w.turn.kept.Failed = "new"
		}, inplace.Nothing, turns.NeedNothing},
		{"an update in place of a node that keeps its system", newWorld(), func(w *world) {
			w.pending.update = &inplace.Facts{OS: "2.0.0"}
			w.status.Upgrade = &status.Upgrade{Held: "db"}
		}, inplace.Nothing, turns.NeedNothing},
		{"a configuration of a node that keeps its system", newWorld(), func(w *world) {
			w.pending.update = &inplace.Facts{OS: "1.0.0"}
			w.status.Upgrade = &status.Upgrade{Held: "db"}
		}, inplace.Nothing, turns.NeedTurn},
		{"a node that is not drained yet", newWorld(), func(*world) {}, inplace.Await,
			turns.NeedNothing},
		{"a new node", newWorld(), func(w *world) {
			w.node = nil
		}, inplace.Nothing, turns.NeedNothing},
		{"while it is applied", runningNew(), func(w *world) {
			w.node.Status.Conditions = ready
		}, inplace.Nothing, turns.NeedNothing},
		{"while it is on trial", runningNew(), func(w *world) {
			w.node.Status.Conditions = ready
			w.ready = "new"
			w.status.Change = &status.Change{}
		}, inplace.Nothing, turns.NeedNothing},
		{"once it is proven, and the Node is not Ready", runningNew(), func(w *world) {
			w.ready = "new"
		}, inplace.Nothing, turns.NeedNothing},
		{"once it is proven, and the Node is Ready", runningNew(), func(w *world) {
			w.node.Status.Conditions = ready
			w.ready = "new"
		}, inplace.Nothing, turns.NeedGive},
		{"of a Node that was pinned before it has begun", newWorld(), func(w *world) {
			w.turn.kept.Phase = turns.Holding
			w.node.Labels = map[string]string{pinnedLabel: ""}
		}, inplace.Nothing, turns.NeedReturn},
		{"of a Node that was pinned once it has begun", runningNew(), func(w *world) {
			w.turn.kept.Phase = turns.Holding
			w.node.Labels = map[string]string{pinnedLabel: ""}
		}, inplace.Nothing, turns.NeedNothing},
		{"once it is proven, and the system is still to be updated", runningNew(), func(w *world) {
			w.node.Status.Conditions = ready
			w.ready = "new"
		}, inplace.Agent, turns.NeedNothing},
		{"once the node came back without its new system", runningNew(), func(w *world) {
			w.node.Status.Conditions = ready
			w.ready = "new"
			w.pending.update = &inplace.Facts{OS: "2.0.0"}
			w.turn.kept.Phase = turns.Holding
		}, inplace.GaveUp, turns.NeedFail},
		{"once an operator lets it try its new system again", runningNew(), func(w *world) {
			w.ready = "new"
		}, inplace.OS, turns.NeedTurn},
		{"while it restarts with its new system", runningNew(), func(w *world) {
			w.ready = "new"
			w.turn.kept.Phase = turns.Holding
		}, inplace.OS, turns.NeedNothing},
		{"once it is reverted", runningNew(), func(w *world) {
			w.status.Refusal = status.Reverted
		}, inplace.Nothing, turns.NeedFail},
		{"once an operator holds it", runningNew(), func(w *world) {
			w.status.Held = &status.Held{}
		}, inplace.Nothing, turns.NeedFail},
		{"a problem that may pass", runningNew(), func(w *world) {
			w.status.Refusal = status.NotApplied
		}, inplace.Nothing, turns.NeedNothing},
		{"a problem of an older configuration", runningNew(), func(w *world) {
			w.status.Offered = "old"
			w.status.Refusal = status.Reverted
		}, inplace.Nothing, turns.NeedNothing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := withPolicy(tt.world)
			tt.edit(&w)
			if got := configurationChange(w, tt.update).need; got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestReleaseByPolicy(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(w *world)
		want releaseAction
	}{
		{"before its turn", func(*world) {}, releaseWait},
		{"while the turn may be in the ledger", func(w *world) {
			w.turn.kept.Phase = turns.Taking
		}, releaseWait},
		{"in its turn", func(w *world) { w.turn.kept.Phase = turns.Holding }, releaseNow},
		{"a change that disturbs nothing", func(w *world) {
			w.turn.classified.class = turns.None
		}, releaseNow},
		{"a change that is not classified", func(w *world) {
			w.turn.classified = classified{}
		}, releaseWait},
		{"a change that has failed here", func(w *world) { w.turn.kept.Failed = "new" }, releaseNow},
		{"a node without configuration", func(w *world) {
			w.node = nil
			w.released = nil
		}, releaseNow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := withPolicy(newWorld())
			w.delay = meta.Now().Sub(noon) // It does not count.
			tt.edit(&w)

			got, out := decideRelease(w, inplace.Nothing, turn{})
			if got != tt.want || out != (outcome{}) {
				t.Errorf("%s %+v, want %s", got, out, tt.want)
			}
		})
	}
}

func TestThePolicyOfASecret(t *testing.T) {
	for _, tt := range []struct {
		name, policy string
		problem      string
	}{
		{"a policy", `{"maxUnavailable": "5%"}`, ""},
		{"a policy that allows nothing", `{"maxUnavailable": 0}`,
			"annotation rollout.loam.dev/policy:1: maxUnavailable: is 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &core.Secret{ObjectMeta: meta.ObjectMeta{
				ResourceVersion: "12",
				Annotations: map[string]string{
					policyAnnotation: tt.policy,
					serialAnnotation: "true",
				},
			}}
			p := pendingConfigOf(s, "me", noon)
			if p.policy == nil || p.serial || p.revision != 12 {
				t.Errorf("%+v", p)
			}
			if (tt.problem == "" && p.policyErr != nil) || (tt.problem != "" &&
				(p.policyErr == nil || !strings.HasPrefix(p.policyErr.Error(), tt.problem))) {
				t.Errorf("error %v, want %q", p.policyErr, tt.problem)
			}
		})
	}
}

func TestALabelThatThePolicyNeeds(t *testing.T) {
	for _, tt := range []struct {
		name   string
		policy turns.Policy
		labels map[string]string
		want   string
	}{
		{"no limit", turns.Policy{}, nil, ""},
		{"a zone", turns.Policy{PerZone: turns.Amount{Number: 1}}, map[string]string{zoneLabel: "a"}, ""},
		{"no zone", turns.Policy{PerZone: turns.Amount{Number: 1}}, nil,
			"perZone of the policy counts all Nodes without the label topology.kubernetes.io/zone as one, " +
				"and this Node has none; hint: label it, or remove perZone"},
		{"no rack", turns.Policy{PerRack: turns.Amount{Number: 1}, RackLabel: "rack"}, nil,
			"perRack of the policy counts all Nodes without the label rack as one, " +
				"and this Node has none; hint: label it, or remove perRack"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.pending.policy = &tt.policy
			w.node.Labels = tt.labels
			if got := missingLabel(w); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestFleetOfATable(t *testing.T) {
	const head = `{"columnDefinitions": [{"name": "Name"}, {"name": "Status"}, {"name": "Roles"}],
		"rows": [`
	var read table
	err := json.Unmarshal([]byte(head+`
		{"cells": ["node-1", "Ready", "<none>"], "object": {"metadata": {"name": "node-1",
			"labels": {"topology.kubernetes.io/zone": "a", "rack": "1", "loam.dev/canary": ""},
			"annotations": {"loam.dev/turn": "x", "loam.dev/held": "db", "loam.dev/tried": "{\"targets\":[\"a\"]}"}}}},
		{"cells": ["node-2", "Ready,SchedulingDisabled", "control-plane,worker", "5d", 1, null],
			"object": null},
		{"cells": ["node-3", "NotReady", "worker"]}]}`), &read)
	if err != nil {
		t.Fatal(err)
	}

	got, err := fleetOf(read, "rack")
	want := turns.Fleet{
		{
			Name:   "node-1",
			Zone:   "a",
			Rack:   "1",
			Mark:   "x",
			Canary: true,
			Held:   true,
			Tried:  turns.Tried{Targets: []string{"a"}},
		},
		{Name: "node-2", Away: true, ControlPlane: true},
		{Name: "node-3", Away: true},
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("fleet (-want +got):\n%s%v", diff, err)
	}

	for name, text := range map[string]string{
		"a list without columns":      `{"rows": []}`,
		"a list with columns swapped": `{"columnDefinitions": [{"name": "Name"}, {"name": "Roles"}, {"name": "Status"}]}`,
		"a row that is too short":     head + `{"cells": ["node-1", "Ready"]}]}`,
	} {
		var read table
		if err := json.Unmarshal([]byte(text), &read); err != nil {
			t.Fatal(err)
		}
		if _, err := fleetOf(read, ""); err == nil {
			t.Errorf("%s is read", name)
		}
	}
}

func TestATurnIsKept(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()

	want := turns.Turn{Phase: turns.Holding, Holder: turns.Holder{ID: "1", Since: noon}}
	if err := saveTurn(durable.New(root, nil), turnRecord{want, true}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, loadTurn(root, zap.NewNop()).kept); diff != "" {
		t.Errorf("turn (-want +got):\n%s", diff)
	}
}

// TestAShortTurnIsNoEventOfItsOwn takes turns for each kind of change.
func TestAShortTurnIsNoEventOfItsOwn(t *testing.T) {
	for _, tt := range []struct {
		name string
		h    turns.Holder
		want int
	}{
		{"a configuration that restarts the kubelet", turns.Holder{Target: "a", Class: turns.Kubelet}, 0},
		{"one that stops pods", turns.Holder{Target: "a", Class: turns.Pods}, 1},
		{"a system", turns.Holder{Target: "a", Version: "2.0.0", Class: turns.Reboot}, 1},
		{"a restart of services", turns.Holder{Class: turns.Kubelet}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root, err := os.OpenRoot(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			c := turnController{env: Env{Root: root, Log: zap.NewNop()}, inbox: newInbox()}

			w := newWorld()
			if err := c.save(&w, turns.Turn{Phase: turns.Holding, Holder: tt.h}); err != nil {
				t.Fatal(err)
			}
			if got := len(c.inbox.events); got != tt.want {
				t.Errorf("%d Events, want %d", got, tt.want)
			}
		})
	}
}

func TestASystemNeedsATurn(t *testing.T) {
	const hash = "89abcdef89abcdef89abcdef89abcdef89abcdef89abcdef89abcdef89abcdef"
	other := system{"0123", "1.5.0"}
	two := system{turns.SystemTarget(hash), "2.0.0"}
	ready := []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}}

	for _, tt := range []struct {
		name  string
		phase turns.Phase
		edit  func(w *world, wanted *system, isKnown *bool)
		want  turns.Need
	}{
		{"armed", turns.Over, func(*world, *system, *bool) {}, turns.NeedTurn},
		{"without a policy", turns.Over, func(w *world, _ *system, _ *bool) {
			w.pending.policy = nil
		}, turns.NeedNothing},
		{"with a policy that cannot be read", turns.Over, func(w *world, _ *system, _ *bool) {
			w.pending.policyErr = os.ErrInvalid
		}, turns.NeedNothing},
		{"a new node", turns.Over, func(w *world, _ *system, _ *bool) {
			w.node = nil
		}, turns.NeedNothing},
		{"outside of its window", turns.Over, func(_ *world, wanted *system, _ *bool) {
			*wanted = system{}
		}, turns.NeedNothing},
		{"canceled while it takes its turn", turns.Taking, func(w *world, _ *system, _ *bool) {
			w.status.Upgrade.Phase = ""
		}, turns.NeedNothing},
		{"while it takes its turn", turns.Taking, func(*world, *system, *bool) {}, turns.NeedTurn},

		{"before the restart", turns.Holding, func(*world, *system, *bool) {}, turns.NeedNothing},
		{"the agent has started again", turns.Holding, func(_ *world, wanted *system, known *bool) {
			*wanted = system{}
			*known = false
		}, turns.NeedNothing},
		{"the window closes before the restart", turns.Holding,
			func(_ *world, wanted *system, _ *bool) { *wanted = system{} }, turns.NeedReturn},
		{"another upgrade before the restart", turns.Holding,
			func(w *world, wanted *system, _ *bool) {
				*wanted = other
				w.status.Upgrade.Target = other.target
			}, turns.NeedReturn},
		{"canceled before the restart", turns.Holding, func(w *world, _ *system, _ *bool) {
			*w.status.Upgrade = status.Upgrade{}
		}, turns.NeedReturn},
		{"on trial", turns.Holding, func(w *world, wanted *system, known *bool) {
			w.status.RootHash = hash
			w.status.Upgrade.Phase = "trial"
			w.node.Status.Conditions = ready
			*wanted = system{}
		}, turns.NeedNothing},
		{"proven", turns.Holding, func(w *world, wanted *system, known *bool) {
			w.status.RootHash = hash
			w.status.Upgrade = &status.Upgrade{}
			w.node.Status.Conditions = ready
			*wanted = system{}
			*known = false
		}, turns.NeedGive},
		{"proven, and a configuration is completed that was cut off", turns.Holding,
			func(w *world, _ *system, _ *bool) {
				w.status.RootHash = hash
				w.status.Upgrade = &status.Upgrade{}
				w.status.Changing = true
				w.node.Status.Conditions = ready
			}, turns.NeedNothing},
		{"proven, and the Node is not Ready", turns.Holding, func(w *world, _ *system, _ *bool) {
			w.status.RootHash = hash
			w.status.Upgrade = &status.Upgrade{}
		}, turns.NeedNothing},
		{"not known yet how the upgrade is", turns.Holding, func(w *world, _ *system, _ *bool) {
			w.status.RootHash = hash
			w.status.Phase = ""
		}, turns.NeedNothing},
		{"fallen back", turns.Holding, func(w *world, _ *system, known *bool) {
			w.status.Upgrade = &status.Upgrade{Failed: []status.FailedSystem{
				{Version: "2.0.0", RootHash: hash, Reason: "no kubelet"},
			}}
			*known = false
		}, turns.NeedFail},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := withPolicy(newWorld())
			w.status.RootHash = "fedc"
			w.status.Upgrade = &status.Upgrade{Phase: "armed", Target: hash}
			w.turn.kept.Phase = tt.phase
			if tt.phase != turns.Over {
				w.turn.kept.Holder = turns.Holder{Target: two.target, Version: two.version}
			}
			wanted := two
			isKnown := true
			tt.edit(&w, &wanted, &isKnown)

			c := systemChange(w, wanted, isKnown)
			if c.need != tt.want {
				t.Errorf("%q, want %q", c.need, tt.want)
			}
			if tt.want == turns.NeedFail && c.why != "version 2.0.0: no kubelet" {
				t.Errorf("why %q", c.why)
			}
		})
	}
}

func TestAnUnreadableTurnKeepsTheMachine(t *testing.T) {
	for _, text := range []string{"", "{", `{"byPolicy": 1}`, `{"holder": {"since": "x"}}`} {
		dir := t.TempDir()
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(turnName)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, turnName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()

		c := New(Config{Server: "https://a"}, Env{Root: root, Log: zap.NewNop(), Now: time.Now})
		if why := c.AwaitTurn("2.0.0", "89ab"); why == "" {
			t.Errorf("%q: the machine may restart before its policy is known", text)
		}
	}
}

func TestANodeLooksWhenAWindowOpens(t *testing.T) {
	for _, in := range []time.Duration{time.Minute, 55 * time.Minute, 72 * time.Hour} {
		for _, part := range []float64{0, 0.5, 0.99} {
			c := turnController{env: Env{Part: func() float64 { return part }, Log: zap.NewNop()}}
			w := newWorld()
			opens := w.now.Add(in)
			c.await(&w, turns.Decision{Until: opens, Opens: true})
			if late := c.until.Sub(opens); late < 0 || late > 2*windowSpread {
				t.Errorf("in %s, %g: %s after it opens", in, part, late)
			}
		}
	}
}

func TestANodeLooksAgainWhenItsClockIsSetBack(t *testing.T) {
	w := withPolicy(newWorld())
	w.turn.byPolicy = true
	w.turn.kept.Phase = turns.Returning
	w.turn.kept.Outcome = turns.Outcome{How: turns.NeedGive}
	c := &turnController{
		env:     Env{Log: zap.NewNop()},
		system:  newSystemTurn(false),
		updates: &updates{},
		until:   w.now.Add(time.Minute),
	}
	c.waitsFor = waitingOf(w, changesOf(w, inplace.Nothing, system{}, true))

	// The next step would read the ledger, and there is no API server.
	looks := func() (looks bool) {
		defer func() { looks = recover() != nil }()
		_, _ = c.takeTurn(t.Context(), &w)
		return false
	}
	if looks() {
		t.Error("it does not wait")
	}
	w.tick(noon.Add(-72*time.Hour), w.uptime+time.Second)
	if !looks() {
		t.Error("it waits for 72 hours")
	}
}

// TestSinceWhenANodeAsks has a node ask, take its turn, and ask for another.
func TestSinceWhenANodeAsks(t *testing.T) {
	needs := func(target string) change { return change{need: turns.NeedTurn, target: target} }
	later := noon.Add(time.Hour)
	for _, tt := range []struct {
		name  string
		asked asked
		next  change
		phase turns.Phase
		want  asked
	}{
		{"for the first time", asked{}, needs("a"), turns.Over, asked{"a", later}},
		{"on and on", asked{"a", noon}, needs("a"), turns.Over, asked{"a", noon}},
		{"while the turn may be in the ledger", asked{"a", noon}, needs("a"), turns.Taking,
			asked{"a", noon}},
		{"for another", asked{"a", noon}, needs("b"), turns.Over, asked{"b", later}},
		{"once it has its turn", asked{"a", noon}, needs("a"), turns.Holding, asked{}},
		{"for nothing", asked{"a", noon}, change{target: "a"}, turns.Over, asked{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.asked.next(tt.next, tt.phase, later); got != tt.want {
				t.Errorf("%v, want %v", got, tt.want)
			}
		})
	}
}

// TestTheReasonsOfMetrics compares those of the metrics with those of the decisions.
func TestTheReasonsOfMetrics(t *testing.T) {
	sample := metrics.Sample{Status: status.Status{Cluster: &status.Cluster{}}}
	for _, reason := range turns.StopReasons() {
		if want := `loam_rollout_stopped{reason="` + reason + `"} 0`; !strings.Contains(
			sample.Text(), want) {
			t.Errorf("no metric %s", want)
		}
	}
}

func TestTheNameOfTheLedger(t *testing.T) {
	w := newWorld()
	w.secret = "gardener-node-agent-pool-1234"
	if got := ledgerName(w); got != "loam-rollout-pool-1234" {
		t.Errorf("%s", got)
	}
	w.config.Gardener = true
	if got := ledgerName(w); got != w.secret {
		t.Errorf("in Gardener %s", got)
	}
}

func TestAnUpdateOfTheSystemIsHeavy(t *testing.T) {
	w := withPolicy(newWorld())
	w.pending.update = &inplace.Facts{OS: "1.0.0"}
	if got := configurationChange(w, inplace.Configure); got.class != turns.Kubelet {
		t.Errorf("class %s without another system", got.class)
	}
	w.pending.update.OS = "2.0.0"
	if got := configurationChange(w, inplace.Configure); got.class != turns.Reboot {
		t.Errorf("class %s with another system", got.class)
	}
}

// TestTheChangesOfANode has an upgrade that is armed, and a configuration.
func TestTheChangesOfANode(t *testing.T) {
	two := system{"89ab", "2.0.0"}
	ready := []core.NodeCondition{{Type: core.NodeReady, Status: core.ConditionTrue}}
	for _, tt := range []struct {
		name  string
		world world
		edit  func(w *world)
		want  []string
	}{
		{"both", newWorld(), func(*world) {}, []string{"new", "89ab"}},
		{"a configuration", newWorld(), func(w *world) {
			w.status.Upgrade = nil
		}, []string{"new"}},
		{"a system, and the configuration is proven", runningNew(), func(w *world) {
			w.node.Status.Conditions = ready
			w.ready = "new"
		}, []string{"89ab"}},
		{"a turn for the system", newWorld(), func(w *world) {
			w.turn.kept = turns.Turn{
				Phase:  turns.Taking,
				Holder: turns.Holder{Target: "89ab", Version: "2.0.0"},
			}
		}, []string{"89ab"}},
		{"a turn for the configuration", newWorld(), func(w *world) {
			w.turn.kept.Phase = turns.Holding
		}, []string{"new"}},
		{"services to restart, too", newWorld(), func(w *world) {
			w.node.Annotations[restartAnnotation] = "kubelet"
		}, []string{"new", "89ab", ""}},
		{"a turn to restart services", newWorld(), func(w *world) {
			w.turn.kept = turns.Turn{Phase: turns.Holding}
		}, []string{""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := withPolicy(tt.world)
			w.status.Upgrade = &status.Upgrade{Phase: "armed", Target: "89ab"}
			tt.edit(&w)
			var got []string
			for _, c := range changesOf(w, inplace.Nothing, two, true) {
				got = append(got, c.target)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}

// TestAGrantEndsWithTheWish: a turn that the node gives back is not used after
// that.
func TestAGrantEndsWithTheWish(t *testing.T) {
	two := system{"89ab", "2.0.0"}
	s := newSystemTurn(false)
	s.grant(false, two.target)
	if may, isNew := s.await(two); may || !isNew {
		t.Errorf("may %v before it is known what is wanted, new %v", may, isNew)
	}

	s.grant(false, two.target)
	<-s.changed
	if may, isNew := s.await(two); !may || isNew {
		t.Errorf("may %v with a turn, new %v", may, isNew)
	}

	s.await(system{})
	if wanted, isKnown := s.want(); wanted != (system{}) || !isKnown {
		t.Errorf("wants %v", wanted)
	}
	if may, _ := s.await(two); may {
		t.Error("it may restart with a turn that the node gives back")
	}

	s.grant(true, "")
	if may, _ := s.await(two); !may {
		t.Error("it waits although nodes take no turns")
	}
}

// TestATurnOfADeletedNodeIsNotUsed has a Node that was deleted, and is another one
// now, before the change of its turn begins.
func TestATurnOfADeletedNodeIsNotUsed(t *testing.T) {
	system, wanted := restarting()
	restart := newWorld()
	restart.setNode(annotated(restartAnnotation, "kubelet"))
	restart.pending.policy = &turns.Policy{}
	restart.turn.byPolicy = true
	restart.turn.kept = turns.Turn{Phase: turns.Holding, Holder: turns.Holder{ID: "1"}}

	for name, of := range map[string]struct {
		w   world
		may func(w world) bool
	}{
		"a configuration": {drained(holding(newWorld())), func(w world) bool {
			action, _ := decideRelease(w, inplace.Nothing, turn{})
			return action == releaseNow
		}},
		"a system":  {drained(system), func(w world) bool { return grantedSystem(w) != "" }},
		"a restart": {restart, mayRestartServices},
	} {
		w := of.w
		change := changesOf(w, inplace.Nothing, wanted, true)[0]
		if change.isOver() || !of.may(w) {
			t.Errorf("%s: need %q, may %v", name, change.need, of.may(w))
		}

		another := *w.node
		another.UID = "2"
		w.setNode(&another)
		change = changesOf(w, inplace.Nothing, wanted, true)[0]
		if change.need != turns.NeedReturn || of.may(w) {
			t.Errorf("%s of another Node: need %q, may %v", name, change.need, of.may(w))
		}
	}

	begun := holding(newWorld())
	begun.released = begun.pending
	begun.node.UID = "2"
	if got := changesOf(begun, inplace.Nothing, wanted, true)[0]; got.isOver() {
		t.Errorf("a configuration that is being applied: %+v", got)
	}
}

// TestATurnWaitsForTheNode has an agent that has just started. Without its Node and
// its policy, it would give its turn without its mark, and a failure would halt.
func TestATurnWaitsForTheNode(t *testing.T) {
	for name, edit := range map[string]func(w *world){
		"the Node":   func(w *world) { w.node = nil; w.nodeKnown = false },
		"the Secret": func(w *world) { w.pending = nil },
	} {
		w := newWorld()
		w.turn.kept = turns.Turn{Phase: turns.Returning, Outcome: turns.Outcome{How: turns.NeedFail}}
		edit(&w)
		c := &turnController{system: newSystemTurn(false), updates: &updates{}} // It asks nobody.
		if out, err := c.takeTurn(t.Context(), &w); err != nil || out != (outcome{}) {
			t.Errorf("%s is not known: %+v, %v", name, out, err)
		}
	}
}

// TestAMarkOfALaterTurnStays removes a mark from a Node that has changed since it was
// seen, as a request does that is on its way for long.
func TestAMarkOfALaterTurnStays(t *testing.T) {
	const mark = "a later turn"
	part := func() float64 { return 0.5 }
	c := &turnController{api: newTestAPI(t, apiserver.New()), env: Env{Part: part, Now: func() time.Time { return noon }}}
	w := newWorld()
	seen := &core.Node{}
	node := &core.Node{ObjectMeta: meta.ObjectMeta{Name: "node-1"}}
	if err := c.api.core.Post().Resource("nodes").Body(node).Do(t.Context()).Into(seen); err != nil {
		t.Fatal(err)
	}
	w.setNode(seen)
	if err := c.patch(t.Context(), &w, map[string]any{turnAnnotation: mark}); err != nil {
		t.Fatal(err)
	}
	marked := w.node

	for _, tt := range []struct {
		name  string
		seen  *core.Node
		want  string
		waits bool
	}{
		{"as it was before it was marked", seen, mark, true},
		{"as it is", marked, "", false},
	} {
		w.node = tt.seen
		c.until = time.Time{}
		if err := c.do(t.Context(), &w, turns.View{}, turns.Step{Kind: turns.Unmark}); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got := !c.until.IsZero(); got != tt.waits {
			t.Errorf("%s: it waits: %t", tt.name, got)
		}
		n := &core.Node{}
		if err := c.api.core.Get().Resource("nodes").Name("node-1").Do(t.Context()).Into(n); err != nil {
			t.Fatal(err)
		}
		if got := n.Annotations[turnAnnotation]; got != tt.want {
			t.Errorf("%s: the mark is %q, want %q", tt.name, got, tt.want)
		}
	}
}
