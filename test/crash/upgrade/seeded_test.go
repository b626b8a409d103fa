package upgrade_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/test/firmware"
	"github.com/loam-os/loam/test/judge"
)

// bug is a mistake that one could write: another Next, flushes of a step that
// are not done, or writes.
type bug struct {
	mutant  func(v upgrade.View) upgrade.Op
	forgets func(kind upgrade.OpKind) bool
	loses   func(off int64) bool
}

// instead replaces each op of a kind by another.
func instead(kind upgrade.OpKind, by func(v upgrade.View, op upgrade.Op) upgrade.Op) bug {
	return bug{mutant: func(v upgrade.View) upgrade.Op {
		op := upgrade.Next(v)
		if op.Kind == kind {
			return by(v, op)
		}
		return op
	}}
}

// seen decides by a wrong view.
func seen(edit func(v *upgrade.View)) bug {
	return bug{mutant: func(v upgrade.View) upgrade.Op {
		edit(&v)
		return upgrade.Next(v)
	}}
}

// forgetting has the flushes of a step left out.
func forgetting(kinds ...upgrade.OpKind) bug {
	return bug{
		mutant: upgrade.Next,
		forgets: func(kind upgrade.OpKind) bool {
			return kinds == nil || slices.Contains(kinds, kind)
		},
	}
}

var seeded = map[string]bug{
	"the slot is not sealed": instead(upgrade.Seal, func(v upgrade.View, _ upgrade.Op) upgrade.Op {
		v.Holds = v.Journal.Target.RootHash
		return upgrade.Next(v)
	}),
	"the slot is not filled": seen(func(v *upgrade.View) { v.Filled = true }),
	"the slot that is filled is not emptied": instead(upgrade.Empty,
		func(upgrade.View, upgrade.Op) upgrade.Op { return upgrade.Op{Kind: upgrade.Finish} }),
	"the entry comes before the journal says so": seen(func(v *upgrade.View) {
		if v.Journal != nil && v.StagedUKI {
			j := *v.Journal
			j.Phase = upgrade.Armed
			v.Journal = &j
		}
	}),
	"the restart comes before the entry": instead(upgrade.Link,
		func(upgrade.View, upgrade.Op) upgrade.Op { return upgrade.Op{Kind: upgrade.Reboot} }),
	"the entry has more tries than anybody waits for": instead(
		upgrade.Link,
		func(_ upgrade.View, op upgrade.Op) upgrade.Op {
			op.To = strings.Replace(op.To, "+3-0", "+9-0", 1)
			return op
		},
	),
	"the entry does not count": instead(
		upgrade.Link,
		func(_ upgrade.View, op upgrade.Op) upgrade.Op {
			op.To = strings.Replace(op.To, "+3-0", "", 1)
			return op
		},
	),
	"the running system's entry goes first": instead(
		upgrade.Fill,
		func(v upgrade.View, op upgrade.Op) upgrade.Op {
			for _, e := range v.Entries {
				if e.RootHash == v.Running.RootHash && !e.Orphan {
					return upgrade.Op{Kind: upgrade.Drop, File: e.File}
				}
			}
			return op
		},
	),
	"a failure is not remembered": instead(upgrade.Remember,
		func(upgrade.View, upgrade.Op) upgrade.Op { return upgrade.Op{Kind: upgrade.Finish} }),
	"what is remembered is not read": seen(func(v *upgrade.View) { v.Failed = nil }),
	"a system that is ill is blessed": seen(func(v *upgrade.View) {
		if v.Verdict.Word == upgrade.Bad {
			v.Verdict.Word = upgrade.Good
		}
	}),
	"a system without a verdict is blessed": seen(func(v *upgrade.View) {
		if v.Verdict.Word == upgrade.Wait {
			v.Verdict.Word = upgrade.Good
		}
	}),
	"a system without a verdict is taken back": seen(func(v *upgrade.View) {
		if v.Verdict.Word == upgrade.Wait {
			v.Verdict.Word = upgrade.Bad
		}
	}),
	"a system that is well goes on being tried": instead(
		upgrade.Rename,
		func(v upgrade.View, op upgrade.Op) upgrade.Op {
			if v.Verdict.Word == upgrade.Good {
				return upgrade.Op{Kind: upgrade.Finish}
			}
			return op
		},
	),
	"a system that is ill keeps its tries": instead(
		upgrade.Rename,
		func(v upgrade.View, op upgrade.Op) upgrade.Op {
			if v.Verdict.Word == upgrade.Bad {
				return upgrade.Op{Kind: upgrade.Reboot}
			}
			return op
		},
	),
	"the backup of the table is not written": {
		mutant: upgrade.Next,
		loses:  func(off int64) bool { return off >= 534<<20 },
	},
	"nothing is flushed":                        forgetting(),
	"an entry that goes is not flushed":         forgetting(upgrade.Drop),
	"the table of an empty slot is not flushed": forgetting(upgrade.Empty),
	"the table of a sealed slot is not flushed": forgetting(upgrade.Seal),
}

// TestSeededBugsAreFound runs lives with a bug in them: either they cannot be
// lived, or some power cut shows it.
func TestSeededBugsAreFound(t *testing.T) {
	judge.Long(t, "nothing: it tests the judges of TestCrashStates, not the product")
	began := time.Now()
	n := 0
	for name, bug := range seeded {
		found := t.Run(name, func(t *testing.T) {
			for life, live := range scenarios {
				if found := lived(t, live, bug); found != "" {
					t.Logf("%s: %s", life, found)
					return
				}
			}
			t.Error("no judge has found it")
		})
		if found {
			n++
		}
	}

	t.Logf("L6: %d of %d seeded bugs found, in %s",
		n, len(seeded), time.Since(began).Round(time.Second))
}

// fatal is a testing.TB whose Fatal ends the life only.
type fatal struct{ testing.TB }

func (f fatal) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (f fatal) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// lived returns what is wrong with a scenario, "" for nothing.
func lived(t *testing.T, live func(c *course), b bug) (found string) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0", "4.0.0")
	steps := 0
	doing := upgrade.Nothing
	c.mutant = func(v upgrade.View) upgrade.Op {
		steps++
		if steps > 500 {
			panic("it does not come to an end")
		}
		op := b.mutant(v)
		doing = op.Kind
		return op
	}

	c.u.Decide = c.mutant
	c.loses = b.loses

	if b.forgets != nil {
		c.lazy = func() bool { return b.forgets(doing) }
	}

	c.t = fatal{TB: t}
	func() {
		defer func() {
			if why := recover(); why != nil {
				found = fmt.Sprint("it cannot be lived: ", why)
			}
		}()
		live(c)
	}()

	n := 0
	stretch{beginning(c.base), c.events}.each(func(e *epoch) {
		firmware.Subsets(e.writes, 4, 1, func(kept firmware.Sectors) {
			if found != "" {
				return
			}

			m := e.with(kept)
			err := e.see(m, func(disk firmware.Disk) error { return c.survives(disk, m.files) })
			for _, good := range []bool{true, false} {
				n++
				if err == nil && n%7 == 0 {
					_, err = c.finishes(t, m, good)
				}
			}

			if err != nil {
				found = err.Error()
			}
		})
	})

	return found
}
