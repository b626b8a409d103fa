package turns

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// postponed is taken once its change is postponed, which is on the disk, and still
// wanted.
func postponed() View {
	v := taken()
	v.Turn.Phase = Holding
	v.Need = NeedPostpone
	v.Why = "a budget"
	v.Turn = Next(v).Turn
	v.Need = NeedTurn
	return v
}

func TestAPostponement(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(v *View)
		want Kind
	}{
		{"its turn is in the ledger", func(*View) {}, Write},
		{"its turn is given", func(v *View) { *v.Seen.Ledger = running() }, Unmark},
		{"its mark is removed", func(v *View) {
			*v.Seen.Ledger = running()
			v.Mark = ""
		}, Save},
		{"its Node is gone", func(v *View) { v.Me.Node = "" }, Write},
		{"it was postponed before", func(v *View) {
			v.Turn = v.Turn.in(Over)
			v.Mark = ""
		}, Await},
		{"another target", func(v *View) {
			v.Turn = v.Turn.in(Over)
			v.Mark = ""
			*v.Seen.Ledger = running()
			v.Me.Target = "newer"
			v.Me.Revision++
		}, Save},
		{"its pause is over", func(v *View) {
			v.Turn = v.Turn.in(Over)
			v.Mark = ""
			*v.Seen.Ledger = running()
			v.Now = v.Now.Add(postponePause)
		}, Save},
		{"its clock was set back", func(v *View) {
			v.Turn = v.Turn.in(Over)
			v.Mark = ""
			*v.Seen.Ledger = running()
			v.Now = v.Now.Add(-24 * time.Hour)
		}, Save},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := postponed()
			tt.edit(&v)
			if got := Next(v); got.Kind != tt.want {
				t.Errorf("%+v, want %q", got, tt.want)
			}
		})
	}
}

func TestAPostponementIsCountedAndRemembered(t *testing.T) {
	v := postponed()
	want := Postponed{
		Target: "new",
		Why:    "a budget",
		Times:  1,
		Until:  noon.Add(postponePause),
	}
	if diff := cmp.Diff(want, v.Turn.Postponed); diff != "" || v.Turn.Phase != Returning {
		t.Errorf("phase %s, postponed (-want +got):\n%s", v.Turn.Phase, diff)
	}

	l := Next(v).Ledger
	if _, ok := l.Holders["node-10"]; ok || l.Postponed != 1 || l.Done != v.Seen.Ledger.Done {
		t.Errorf("%+v", l)
	}
	v.Seen.Ledger = &l
	v.Mark = ""
	v.Turn = Next(v).Turn
	if diff := cmp.Diff(want, v.Turn.Postponed); diff != "" || v.Turn.Phase != Over {
		t.Errorf("phase %s, postponed (-want +got):\n%s", v.Turn.Phase, diff)
	}

	// It is kept in the next turn, and forgotten with the change.
	v.Now = v.Now.Add(postponePause)
	v.Turn = Next(v).Turn
	if v.Turn.Phase != Taking || v.Turn.Postponed.Times != 1 {
		t.Errorf("%+v", v.Turn)
	}
	v.Need = NeedGive
	if got := v.returning().over(); got.Postponed != (Postponed{}) {
		t.Errorf("%+v", got)
	}
	v.Me.Target = "newer"
	if got := v.returning().over(); got.Postponed != want {
		t.Errorf("%+v", got)
	}
}

func TestPausesDouble(t *testing.T) {
	var p Postponed
	for _, want := range []time.Duration{5, 10, 20, 40, 80, 120, 120} {
		p = p.next("new", "a budget", noon)
		if got := p.Until.Sub(noon); got != want*time.Minute {
			t.Errorf("pause %s, want %d minutes", got, want)
		}
	}
	if p = p.next("newer", "a budget", noon); p.Times != 1 {
		t.Errorf("%+v", p)
	}
}

func TestAPostponedNodeGoesLast(t *testing.T) {
	if got := position(Me{Canary: true, Postponed: true}); got != 1 {
		t.Errorf("position %v", got)
	}
}

// TestAPostponedNodeDoesNotWaitForEver has a ledger that changes all the time.
func TestAPostponedNodeDoesNotWaitForEver(t *testing.T) {
	v := postponed()
	v.Turn = v.Turn.in(Over)
	v.Mark = ""
	*v.Seen.Ledger = running()
	v.Seen.Ledger.Holders = nil
	v.Seen.Ledger.Restored = nil
	v.Me.Unchanged = 0
	v.Now = v.Now.Add(postponePause)
	if got := Next(v); got.Kind != Await || got.Decision.Why != "postponed: the other nodes come first" {
		t.Errorf("%+v", got)
	}
	v.Now = v.Now.Add(maxLast)
	if got := Next(v); got.Kind != Save {
		t.Errorf("%+v", got)
	}
}

// TestACanaryNotesItsTurn has one give its turn, or postpone its change.
func TestACanaryNotesItsTurn(t *testing.T) {
	for _, v := range []View{ended(NeedGive), postponed()} {
		v.Me.Canary = true
		v.Tried = Tried{Version: "1.0.0"}.With("old")
		got := Next(v)
		want := Tried{Version: "1.0.0", Targets: []string{"old", "new"}}
		if diff := cmp.Diff(want, got.Tried); got.Kind != NoteTried || diff != "" {
			t.Errorf("%s (-want +got):\n%s", got.Kind, diff)
		}
		v.Tried = ParseTried(got.Tried.String())
		if got := Next(v); got.Kind != Write {
			t.Errorf("%+v", got)
		}
	}
}

func TestACanaryRemembersTheLastTargets(t *testing.T) {
	var tried Tried
	for i := range 2 * maxTried {
		tried = tried.With(string(rune('a' + i)))
	}
	if got := tried.With("p"); len(got.Targets) != maxTried || got.Targets[0] != "i" {
		t.Errorf("%v", got)
	}
	if got := ParseTried("x"); len(got.Targets) != 0 {
		t.Errorf("%v", got)
	}
}

// TestAPauseIsForAKindOfChange has a node postpone its configuration, and then a
// system.
func TestAPauseIsForAKindOfChange(t *testing.T) {
	v := postponed()
	v.Turn = v.Turn.in(Over)
	v.Mark = ""
	*v.Seen.Ledger = running()
	v.Me.Target = "5678"
	v.Me.Version = "3.0.0"
	v.Turn = Next(v).Turn
	if v.Turn.Phase != Taking || v.Turn.Holder.Target != "5678" {
		t.Fatalf("%+v", v.Turn)
	}

	v.Turn = v.Turn.in(Holding)
	v.Need = NeedPostpone
	v.Turn = Next(v).Turn.in(Over)
	v.Need = NeedTurn
	config := v
	config.Me.Target = "new"
	config.Me.Version = ""
	for _, v := range []View{v, config} {
		if got := Next(v); got.Kind != Await || got.Decision.Why != "postponed: a budget" {
			t.Errorf("%+v", got)
		}
	}
}
