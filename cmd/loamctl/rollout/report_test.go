package rollout

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/hint"
)

func TestNoMoreNodesAreDoneThanThereAre(t *testing.T) {
	p := Progress{Rollout: turns.Rollout{Done: 52, Failed: 1}}
	if got := p.line(50); got != "["+strings.Repeat("#", width)+"] 50 of 50 nodes, 1 failed" {
		t.Error(got)
	}
}

func TestNoChunkIsLargerThanThePool(t *testing.T) {
	p, err := turns.ParsePolicy("policy", []byte(`{maxUnavailable: 2, chunks: [1, 10, 20]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := Describe(p, 3, time.Now()); got != "valid; of 3 nodes, 2 may be away; chunks end at 1, 3" {
		t.Error(got)
	}
}

// TestAPolicyPromisesNoMoreThanALedgerHolds has the share of a large pool.
func TestAPolicyPromisesNoMoreThanALedgerHolds(t *testing.T) {
	p, err := turns.ParsePolicy("policy", []byte("{maxUnavailable: 50%, chunks: [100%]}"))
	if err != nil {
		t.Fatal(err)
	}
	most := turns.MaxHolders()
	for size, want := range map[int]string{
		2 * most: fmt.Sprintf("valid; of %d nodes, %d may be away; chunks end at %d", 2*most, most, 2*most),
		5000: fmt.Sprintf("valid; of 5000 nodes, 2500 may be away, but a ledger holds the turns of "+
			"about %d; chunks end at 5000", most),
	} {
		if got := Describe(p, size, time.Now()); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestTheLastChunkIsAllNodes: a policy need not name it.
func TestTheLastChunkIsAllNodes(t *testing.T) {
	for chunks, want := range map[string]string{
		"[1, 5%]":        "1, 5, 100",
		"[10, 5%, 20%]":  "10, 20, 100",
		"[1, 100%]":      "1, 100",
		"[200]":          "100",
		"[1, 1, 2%, 2%]": "1, 2, 100",
	} {
		p, err := turns.ParsePolicy("policy", []byte("{maxUnavailable: 5, chunks: "+chunks+"}"))
		if err != nil {
			t.Fatal(err)
		}
		want = "valid; of 100 nodes, 5 may be away; chunks end at " + want
		if got := Describe(p, 100, time.Now()); got != want {
			t.Errorf("%s: %s, want %s", chunks, got, want)
		}
	}
}

// TestALeaveThatHasEndedIsNotShown: by the clock of the nodes, too, it does not count.
func TestALeaveThatHasEndedIsNotShown(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		until   time.Time
		isShown bool
	}{{now.Add(time.Second), true}, {now, false}, {now.Add(-48 * time.Hour), false}} {
		l := turns.New()
		l.Hurry = &turns.Hurry{Max: turns.Amount{Percent: 30}, Why: "a hole", Until: tt.until}
		report, err := Rollout{API: clusterAPI{}, Pool: "edge"}.Report(t.Context(), l, now)
		isShown := strings.Contains(report.String(), "30% may be away until")
		if err != nil || isShown != tt.isShown || (report.Hurry != nil) != tt.isShown {
			t.Errorf("until %s: %v, shown\n%s", tt.until, err, report)
		}
	}
}

// TestAPageIsText has a Node say what a terminal would obey, and lines of its own.
func TestAPageIsText(t *testing.T) {
	const odd = "\x1b[2J\x1b]0;owned\x07\nstate   running"
	l := turns.New()
	l.Halted = odd
	l.Systems["1234"] = turns.Rollout{Version: odd, Halted: odd}
	held := []Pinned{{Node: "node-1", Why: odd}}
	for _, page := range []string{
		Report{
			Why:           odd,
			Configuration: Progress{Rollout: turns.Rollout{Halted: odd}, Target: odd},
			Halts:         []Halt{{Target: odd, Why: odd}},
			Systems:       []Progress{{Rollout: l.Systems["1234"]}},
			Turns:         []Turn{{Holder: turns.Holder{Version: odd}}},
			Failed:        []Failed{{Node: "node-1", Failure: turns.Failure{Target: "1", Why: odd}}},
			Held:          held,
			Pinned:        held,
		}.String(),
		Plan{Held: held}.String(),
		strings.Join(stops("edge", l.Pause(odd)), ""),
	} {
		for line := range strings.Lines(page) {
			if strings.ContainsAny(line, "\x1b\x07") || strings.HasPrefix(line, "state   running") {
				t.Errorf("%q", line)
			}
		}
	}
}

// TestAnErrorIsText has a Node and a ledger say what a terminal would obey.
func TestAnErrorIsText(t *testing.T) {
	const odd = "\x1b[2J\x1b]0;owned\x07"
	l := turns.New()
	l.State = turns.Running
	api := fakeAPI{
		nodesPath + "/node-1": object(t, map[string]string{
			failedAnnotation:       turns.Failure{Target: "01d", Why: odd}.String(),
			failedSystemAnnotation: odd,
		}),
		edgeLease: object(t, l.Pause(odd).Annotations(nil)),
	}
	r := Rollout{API: api, Pool: "edge"}

	_, _, err := r.Retry(t.Context(), "node-1")
	if text := fmt.Sprint(err, hint.Of(err)); err == nil || strings.ContainsAny(text, "\x1b\x07") {
		t.Errorf("retry says %q", text)
	}
	_, before, err := r.Pause(t.Context(), "lunch")
	if err != nil || before != "[2J ]0;owned" {
		t.Errorf("pause says %q, %v", before, err)
	}
}

// TestASystemThatComesBackIsCountedAnew: the ledger counts on.
func TestASystemThatComesBackIsCountedAnew(t *testing.T) {
	for _, tt := range []struct{ done, want int }{{9, 9}, {10, 10}, {11, 1}, {20, 10}, {25, 5}} {
		p := progressOf(turns.Rollout{Version: "2.0.0", Done: tt.done}, 10, time.Now())
		if p.Done != tt.want {
			t.Errorf("%d done, want %d of %d", p.Done, tt.want, tt.done)
		}
	}
}
