package systemdmodel_test

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/plan"
	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/test/judge"
)

const (
	// pairsVariable is how many pairs TestPairs walks, seedVariable where it
	// begins.
	pairsVariable = "LOAM_PAIRS"
	seedVariable  = "LOAM_SEED"
)

// TestPairs walks through random configurations on one real systemd. After each
// step, the outcome of every unit must be what the plan said, and what an
// oracle expects that knows nothing of the engine: no needless restart, and
// none that is missing. A step for which a node of a pool would wait for its turn
// is one that stops or restarts something.
func TestPairs(t *testing.T) {
	t.Parallel()
	onMachine(t, func(t *testing.T, m machine) {
		pairs, seed := number(t, pairsVariable, judge.Pick[uint64](20, 60)), number(
			t,
			seedVariable,
			uint64(time.Now().UnixNano()),
		)
		w, began := newScenario(seed), time.Now()
		e := m.executor(t)
		have, total := config.Desired{}, map[string]int{}
		before := m.snapshot(t)
		for n := range pairs {
			for range 1 + w.dice.IntN(4) {
				w.change()
			}
			if m.poke(t, w.dice, have) {
				before = m.snapshot(t)
			}
			want := w.desired()
			before = m.step(t, e, have, want, before, total)
			if t.Failed() {
				t.Fatalf("pair %d of %s=%d; from\n%s\nto\n%s",
					n, seedVariable, seed, document(have), document(want))
			}
			have = want
		}

		t.Logf("%d pairs from %s=%d in %s: %v; 0 needless, 0 missed, 0 turns for nothing",
			pairs, seedVariable, seed, time.Since(began).Round(time.Second), total)
	})
}

func number(t *testing.T, variable string, otherwise uint64) uint64 {
	t.Helper()
	value := os.Getenv(variable)
	if value == "" {
		return otherwise
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// poke makes some of the units that are on demand come up, disabled ones too,
// and reports whether there were any.
func (m machine) poke(t *testing.T, d dice, have config.Desired) (did bool) {
	all := views(have)
	for _, id := range slices.Sorted(maps.Keys(all)) {
		v := all[id]
		if id[1:] != ".service" || !v.onDemand || !d.one(3) {
			continue
		}
		m.trigger(t, strings.TrimSuffix(id, ".service"))
		did = true
	}
	return did
}

// step goes from have to want, compares, and returns the new state of the
// system. before is its old state.
func (m machine) step(
	t *testing.T,
	e *apply.Executor,
	have, want config.Desired,
	before snapshot,
	total map[string]int,
) snapshot {
	t.Helper()
	p, err := e.Plan(t.Context(), want, "test")
	if err != nil {
		t.Fatalf("plan: %v\n%s", err, document(want))
	}

	m.reloads.count = 0
	if _, err := e.Apply(t.Context(), request(want)); err != nil {
		t.Errorf("apply: %v", err)
	}
	if v := m.judged(t, e); v.Word != health.Good {
		t.Errorf("verdict: %+v", v)
	}

	after := m.snapshot(t)
	did := became(before, after)
	if diff := cmp.Diff(planned(p, before, after), did); diff != "" {
		t.Errorf("what was planned, and what became of units (-planned +did):\n%s", diff)
	}
	if diff := cmp.Diff(due(have, want, before).butSlices(before), did); diff != "" {
		t.Errorf("what had to become of units, and what did (-due +did):\n%s", diff)
	}
	takes := turns.ClassOf(p) != turns.None
	stops, runs := did.disturbs(before, have, want)
	if (stops && !takes) || (takes && !stops && !runs) {
		t.Errorf("it waits for a turn: %v, it stops something: %v", takes, stops)
	}
	if takes {
		total["turns"]++
	}
	if (p.Reload && m.reloads.count != 1) || (!p.Reload && m.reloads.count != 0) {
		t.Errorf("%d daemon-reloads, and planned is %v", m.reloads.count, p.Reload)
	}

	fragments, dropIns := map[string]string{}, map[string][]string{}
	for id, v := range views(want) {
		fragments[id], dropIns[id] = v.fragment, v.dropIns
	}

	if wrong := after.misread(fragments, dropIns); len(wrong) > 0 {
		t.Errorf("systemd has not read the configuration: %s", strings.Join(wrong, "; "))
	}
	if t.Failed() {
		t.Logf("the plan was\n%s", p)
	}

	for _, a := range slices.Concat(p.Units, p.Kept) {
		total[string(a.Verb)]++
	}

	if p.Empty() {
		total["nothing to do"]++
	}

	return after
}

// planned is what a plan says becomes of units.
func planned(p plan.Plan, before, after snapshot) outcome {
	o := outcome{}
	for _, a := range p.Units {
		id := after.id(before.id(a.Unit))
		switch {
		case a.Verb == plan.Stop && o[id] == "":
			o[id] = "stopped"
		case a.Verb == plan.Reload:
			o[id] = "reloaded"
		case a.Verb == plan.Start || a.Verb == plan.Restart:
			o[id] = "new"
		}
	}
	return o.butSlices(before)
}

func document(d config.Desired) string {
	text, _ := json.MarshalIndent(d, "", " ")
	return string(text)
}
