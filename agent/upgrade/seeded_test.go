package upgrade

import (
	"strings"
	"testing"
)

// seeded are bugs that somebody could write, as Next or as a disk that forgets.
var seeded = map[string]struct {
	mutant func(v View) Op
	lazy   func() bool
}{
	"the slot is not sealed": {mutant: func(v View) Op {
		op := Next(v)
		if op.Kind == Seal {
			v.Target.RootHash = v.Journal.Target.RootHash
			op = Next(v)
		}
		return op
	}},
	"the slot is not filled": {mutant: func(v View) Op {
		v.Filled = true
		return Next(v)
	}},
	"the entry comes before the journal says so": {mutant: func(v View) Op {
		if v.Journal != nil && v.StagedUKI {
			j := *v.Journal
			j.Phase = Armed
			v.Journal = &j
		}
		return Next(v)
	}},
	"a failure is not remembered": {mutant: func(v View) Op {
		op := Next(v)
		if op.Kind == Remember {
			op.Kind = Finish
		}
		return op
	}},
	"the entry has more tries than anybody waits for": {mutant: func(v View) Op {
		op := Next(v)
		if op.Kind == Link {
			op.To = strings.Replace(op.To, "+3-0", "+9-0", 1)
		}
		return op
	}},
	"the entry does not count": {mutant: func(v View) Op {
		op := Next(v)
		if op.Kind == Link {
			op.To = strings.Replace(op.To, "+3-0", "", 1)
		}
		return op
	}},
	"the running system's entry goes first": {mutant: func(v View) Op {
		op := Next(v)
		if run := find(v, v.Running.RootHash); op.Kind == Fill && run != nil {
			return Op{Kind: Drop, File: run.File}
		}
		return op
	}},
	"the slot that runs is emptied": {mutant: func(v View) Op {
		op := Next(v)
		if op.Kind == Empty {
			return Op{Kind: Finish}
		}
		return op
	}},
	"nothing is flushed": {lazy: func() bool { return true }},
	"every other flush is forgotten": {lazy: func() func() bool {
		n := 0
		return func() bool { n++; return n%2 == 0 }
	}()},
}

// TestSeededBugsAreFound runs lives with a bug in them: either they cannot be lived,
// or some power cut shows it.
func TestSeededBugsAreFound(t *testing.T) {
	for name, bug := range seeded {
		t.Run(name, func(t *testing.T) {
			for life, live := range lives {
				if found := lived(t, live, bug.mutant, bug.lazy); found != "" {
					t.Logf("%s: %s", life, found)
					return
				}
			}
			t.Error("nobody has found it")
		})
	}
}

// fatal is a testing.TB whose Fatal ends the life only.
type fatal struct{ testing.TB }

func (f fatal) Fatal(args ...any)                 { panic(died{strings.TrimSpace(strings.Join(texts(args), " "))}) }
func (f fatal) Fatalf(format string, args ...any) { panic(died{format}) }

type died struct{ why string }

func texts(args []any) (all []string) {
	for _, a := range args {
		if err, ok := a.(error); ok {
			all = append(all, err.Error())
		}
	}
	return all
}

// lived is what is wrong with a life, "" if nothing is.
func lived(t *testing.T, live func(c *course), mutant func(View) Op, lazy func() bool) (found string) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0", "4.0.0")
	steps := 0
	if mutant != nil {
		c.mutant = func(v View) Op {
			if steps++; steps > 500 {
				panic(died{"it does not come to an end"})
			}
			return mutant(v)
		}
	}
	c.u.mutant, c.lazy = c.mutant, lazy
	c.t = fatal{TB: t}
	func() {
		defer func() {
			if d, ok := recover().(died); ok {
				found = "it cannot be lived: " + d.why
			}
		}()
		live(c)
	}()
	n := 0
	c.each(4, func(m moment) {
		if found != "" {
			return
		}
		err := c.survives(m)
		for _, good := range []bool{true, false} {
			if n++; err == nil && n%41 == 0 {
				err = c.finishes(t, m, good)
			}
		}
		if err != nil {
			found = err.Error()
		}
	})
	return found
}
