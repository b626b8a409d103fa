package cluster

import (
	"errors"
	"os"
	"testing"
	"time"

	core "k8s.io/api/core/v1"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/turns"
)

// replaced is a node that has its turn for "new", which it was given, while "newer"
// has taken its place.
func replaced() world {
	w := withPolicy(runningNew())
	w.turn.kept.Phase = turns.Holding
	w.node.Status.Conditions = []core.NodeCondition{
		{Type: core.NodeReady, Status: core.ConditionTrue},
	}

	next := *w.pending
	next.sum = "newer"
	next.target = "newer"
	w.pending = &next
	w.turn.classified.sum = "newer"
	return w
}

func TestATurnIsForOneConfiguration(t *testing.T) {
	for _, tt := range []struct {
		name      string
		edit      func(w *world)
		step      inplace.Step
		need      turns.Need
		withdraws bool
	}{
		{"while it is applied", func(w *world) {
			w.status.Changing = true
		}, inplace.Nothing, turns.NeedNothing, false},
		{"while it is on trial", func(w *world) {
			w.ready = "new"
			w.status.Change = &status.Change{}
		}, inplace.Nothing, turns.NeedNothing, false},
		{"once it is proven", func(w *world) {
			w.ready = "new"
		}, inplace.Nothing, turns.NeedGive, false},
		{"once it was taken back", func(w *world) {
			w.status.Refusal = status.Reverted
		}, inplace.Nothing, turns.NeedFail, false},
		{"once it runs, and the Node is not Ready", func(w *world) {
			w.ready = "new"
			w.node.Status.Conditions = nil
		}, inplace.Nothing, turns.NeedNothing, true},
		{"while it cannot be had", func(w *world) {
			w.status.Refusal = status.Unavailable
		}, inplace.Nothing, turns.NeedNothing, true},
		{"before the agent has read it", func(w *world) {
			w.status.Offered = "old"
		}, inplace.Nothing, turns.NeedNothing, true},
		{"withdrawn, before the agent has read that", func(w *world) {
			w.released = w.released.withdrawn("T")
		}, inplace.Nothing, turns.NeedNothing, false},
		{"withdrawn", func(w *world) {
			w.released = w.released.withdrawn("T")
			w.status.Offered = "withdrawn-T"
		}, inplace.Nothing, turns.NeedReturn, false},
		{"withdrawn, but begun before", func(w *world) {
			w.released = w.released.withdrawn("T")
			w.status.Offered = "withdrawn-T"
			w.status.Changing = true
		}, inplace.Nothing, turns.NeedNothing, false},
		{"withdrawn, but on trial", func(w *world) {
			w.released = w.released.withdrawn("T")
			w.status.Offered = "withdrawn-T"
			w.status.Change = &status.Change{}
		}, inplace.Nothing, turns.NeedNothing, false},
		{"not given to the node yet", func(w *world) {
			w.released = &pendingConfig{sum: "old"}
			w.status.Offered = "old"
		}, inplace.Nothing, turns.NeedReturn, false},
		{"of an agent that starts again", func(w *world) {
			w.released = nil
			w.status.Offered = ""
		}, inplace.Nothing, turns.NeedReturn, false},
		{"of an agent that starts again, and completes it", func(w *world) {
			w.released = nil
			w.status.Offered = ""
			w.status.Changing = true
		}, inplace.Nothing, turns.NeedNothing, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := replaced()
			tt.edit(&w)

			c := configurationChange(w, tt.step)
			if c.need != tt.need || c.target != "new" {
				t.Errorf("%q for %q, want %q for the one of the turn", c.need, c.target, tt.need)
			}
			if got := withdraws(w, tt.step); got != tt.withdraws {
				t.Errorf("withdraws it: %t, want %t", got, tt.withdraws)
			}
			if action, _ := decideRelease(w, tt.step, turn{}); action != releaseWait {
				t.Errorf("%s newer, want %s", action, releaseWait)
			}
		})
	}
}

func TestANewerConfigurationInTheSameTurn(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(w *world)
		want releaseAction
	}{
		{"on trial", func(w *world) { w.status.Change = &status.Change{} }, releaseWait},
		{"between two configurations", func(w *world) { w.status.Unfinished = true }, releaseNow},
		{"that disturbs nothing", func(w *world) { w.turn.classified.class = turns.None }, releaseNow},
		{"that has failed here", func(w *world) { w.turn.kept.Failed = "newer" }, releaseNow},
		{"before the Secrets of it are known", func(w *world) {
			w.pending.references = []osc.Reference{caReference}
		}, releaseWait},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := replaced()
			tt.edit(&w)
			if got, _ := decideRelease(w, inplace.Nothing, turn{}); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// TestATurnIsKeptUntilTheValuesAreKnown: until then, the configuration of the turn
// seems to be another one to an agent that starts again.
func TestATurnIsKeptUntilTheValuesAreKnown(t *testing.T) {
	w := replaced()
	w.released = nil
	w.status.Offered = ""
	w.pending.references = []osc.Reference{caReference}
	if need := configurationChange(w, inplace.Nothing).need; need == turns.NeedReturn {
		t.Error("it is given back")
	}
	w.pending.areKnown = true
	if need := configurationChange(w, inplace.Nothing).need; need != turns.NeedReturn {
		t.Errorf("once they are known: %q, want %q", need, turns.NeedReturn)
	}
}

func TestAWithdrawnConfigurationIsAbsent(t *testing.T) {
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	c := New(Config{Server: "https://a"}, Env{Root: root, Log: zap.NewNop(), Now: time.Now})
	w := replaced()
	c.released.set(w.released.withdrawn("T"))

	doc, err := c.Read(t.Context())
	if !errors.Is(err, source.ErrAbsent) || doc.Version != "withdrawn-T" {
		t.Errorf("version %q: %v", doc.Version, err)
	}
}
