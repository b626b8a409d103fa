package rollout

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/turns"
)

func TestAPlanSaysWhatStops(t *testing.T) {
	goesOn := turns.New()
	goesOn.State = turns.Running
	paused := goesOn.Pause("lunch")
	halted := goesOn
	halted.Halted = "node-3: no"
	both := turns.New().Pause("lunch")
	both.Systems = map[string]turns.Rollout{
		"2b2b": {Version: "2.0.0", Halted: "node-4: no"},
		"3c3c": {Version: "3.0.0"},
	}

	back := paused
	back.Halts = map[string]string{"01d": "node-5: no"}

	const resume = "`loamctl rollout resume edge` lets it go on"
	const twice = "`loamctl rollout resume edge` ends the pause and, once more, what is halted"
	for _, test := range []struct {
		name   string
		ledger turns.Ledger
		want   []string
	}{
		{"it goes on", goesOn, nil},
		{"it is paused", paused, []string{"paused: lunch", resume}},
		{"a configuration is halted", halted, []string{
			"the configuration is halted: node-3: no", resume,
		}},
		{"it is paused, and a system halted", both, []string{
			"paused: lunch", "version 2.0.0 is halted: node-4: no", twice,
		}},
		{"it is paused, and what comes back is halted", back, []string{
			"paused: lunch", "configuration 01d is halted if it comes back: node-5: no", twice,
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, stops("edge", test.ledger)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}

			// What it says lets it go on.
			l := test.ledger.Resume()
			if len(test.want) > 0 && test.want[len(test.want)-1] == twice {
				if len(stops("edge", l)) == 0 {
					t.Error("one resume is enough")
				}
				l = l.Resume()
			}
			if left := stops("edge", l); len(left) > 0 {
				t.Errorf("after what it says, %q", left)
			}
		})
	}
}

// TestAPlanFindsAnotherLedgerOfTheSameNodes has a ledger of another pool.
func TestAPlanFindsAnotherLedgerOfTheSameNodes(t *testing.T) {
	const remedy = ": write a label selector into nodes of both policies, or delete the Lease that " +
		"no node uses now"
	begun := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name   string
		own    string // The selector of the policy.
		pool   string // The label of the Nodes that names their pool.
		other  string // The selector of the other ledger.
		isNew  bool   // No turn of the other ledger was taken yet.
		parens string // What is said of its Nodes, "" for nothing.
		remedy string
	}{
		{name: "both are of all Nodes", parens: "all", remedy: remedy},
		{name: "both are of all Nodes, and the other one is new", isNew: true, parens: "all", remedy: remedy},
		{name: "the other one is of some", other: "a=b", parens: "a=b", remedy: remedy},
		{name: "the other one is of all", own: "a=b", parens: "all", remedy: remedy},
		{name: "the other one is new", own: "a=b", isNew: true},
		{name: "both are of some", own: "a=b", other: "a=c"},
		{name: "both are of the same", own: "a=b", other: "a=b", parens: "a=b",
			remedy: ": delete the one whose nodes have another Secret now"},
		{name: "of another pool in Gardener", pool: "edge", other: poolLabel + "=core"},
		{name: "of this pool in Gardener", pool: "edge", other: poolLabel + "=edge",
			parens: poolLabel + "=edge", remedy: ": delete the one whose nodes have another Secret now"},
		{name: "of another pool in Gardener that is new", pool: "edge", isNew: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			own := turns.New()
			own.State = turns.Running
			other := own
			other.Nodes = tt.other
			if !tt.isNew {
				other.Begun = begun
			}
			node := `{"metadata": {"labels": {"` + poolLabel + `": "` + tt.pool + `"}}}`
			api := clusterAPI{fakeAPI{
				edgeLease:                         object(t, own.Annotations(nil)),
				leasesPath + "/loam-rollout-core": object(t, other.Annotations(nil)),
				edgeSecret: object(t, map[string]string{
					policyAnnotation: "{maxUnavailable: 1, nodes: " + `"` + tt.own + `"}`,
				}),
				nodesPath + "/node-1": node,
			}}

			plan, err := Rollout{API: api, Pool: "edge"}.Plan(t.Context(), begun)
			if err != nil {
				t.Fatal(err)
			}
			want := ""
			if tt.parens != "" {
				want = "the ledger in Lease loam-rollout-core is about the same Nodes (" + tt.parens + ")" +
					tt.remedy
			}
			if got := strings.Join(plan.Problems, "\n"); got != want {
				t.Errorf("problems: %q, want %q", got, want)
			}
		})
	}
}
