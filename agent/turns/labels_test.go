package turns

import (
	"fmt"
	"testing"
)

// many is [wants] in a pool of 100 nodes, of which three have taken their turn. A node
// has looked for labels, and Unlabelled is what it wrote.
func many(unlabelled int) View {
	v := wants()
	v.Seen.Ledger.Size = 100
	v.Seen.Ledger.Unlabelled = unlabelled
	for i := len(v.Seen.Fleet); i < 100; i++ {
		v.Seen.Fleet = append(v.Seen.Fleet, Node{Name: fmt.Sprintf("node-%d", i+1)})
	}
	return v
}

func TestLabelsOfALargePoolAreLookedForOnceInAWhile(t *testing.T) {
	for _, tt := range []struct {
		name       string
		unlabelled int
		edit       func(v *View)
		want       bool
	}{
		{"nobody has looked", 0, func(*View) {}, false},
		{"the last one that need not", 4, func(*View) {}, true},
		{"it is time to look again", 3, func(*View) {}, false},
		{"a node has just looked", 8, func(*View) {}, true},
		{"more than a node writes that has looked", 9, func(*View) {}, false},
		{"another configuration", 8, func(v *View) {
			v.Me.Target = "newer"
			v.Me.Revision++
		}, false},
		{"another system", 8, func(v *View) {
			v.Me.Target = "5678"
			v.Me.Version = "3.0.0"
		}, false},
		{"a system whose labels nobody has looked for", 8, func(v *View) {
			v.Me.Target = "1234"
			v.Me.Version = "2.0.0"
			v.Seen.Ledger.Systems["1234"] = Rollout{Done: 20}
		}, false},
		{"a system that has few turns left without", 0, func(v *View) {
			v.Me.Target = "1234"
			v.Me.Version = "2.0.0"
			v.Seen.Ledger.Systems["1234"] = Rollout{Done: 20, Unlabelled: 22}
		}, true},
		{"a system that was rolled out before", 0, func(v *View) {
			v.Me.Target = "1234"
			v.Me.Version = "2.0.0"
			v.Seen.Ledger.Systems["1234"] = Rollout{Done: 20, Unlabelled: 103}
		}, false},
		{"a restart", 8, func(v *View) { v.Me.Target = "" }, false},
		{"a small pool", 4, func(v *View) { v.Seen.Ledger.Size = 19 }, false},
		{"a brief list for another change", 0, func(v *View) {
			v.Seen.Listed = true
			v.Seen.Brief = true
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := many(tt.unlabelled)
			v.Seen.Listed = false
			tt.edit(&v)
			if step := Next(v); step.Kind != List || step.Brief != tt.want {
				t.Errorf("%q, brief %v; want a list, brief %v", step.Kind, step.Brief, tt.want)
			}
		})
	}
}

func TestANodeThatTakesATurnSaysWhetherThereAreLabels(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(v *View)
		want int
	}{
		{"there are none", func(*View) {}, 4 + 5},
		{"a canary", func(v *View) {
			v.Seen.Fleet[50].Canary = true
			v.Seen.Fleet[50].Tried = Tried{Targets: []string{v.Me.Target}}
		}, 0},
		{"a pinned Node", func(v *View) { v.Seen.Fleet[50].Pinned = true }, 0},
		{"it has not looked", func(v *View) { v.Seen.Brief = true }, 8},
		{"none, for a system", func(v *View) {
			v.Me.Target = "1234"
			v.Me.Version = "2.0.0"
			v.Seen.Ledger.Systems["1234"] = Rollout{Done: 20}
		}, 21 + 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := many(8)
			tt.edit(&v)
			v.Turn = Next(v).Turn
			step := Next(v)
			have := step.Ledger.toward(v.Me).Unlabelled
			if step.Kind != Write || have != tt.want {
				t.Errorf("%q, unlabelled up to turn %d, want %d", step.Kind, have, tt.want)
			}
		})
	}
}
