package upgrade

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/loam-os/loam/test/firmware"
)

// course is a machine's life with everything that was written in it.
type course struct {
	plant
	t testing.TB
	*recorder
	base    firmware.Sectors
	running System
	u       *Upgrader
	mutant  func(v View) Op
	boots   int
	drills  System
}

func newCourse(t testing.TB, versions ...string) *course {
	p, disk := newPlant(t, versions...)
	return p.course(t, disk)
}

func (p plant) course(t testing.TB, disk firmware.Sectors) *course {
	c := &course{plant: p, t: t, recorder: newRecorder(disk, nil), base: disk, running: p.releases[0].System}
	c.u = p.upgrader(c.recorder, c.running)
	return c
}

// boot starts the machine, with the try that the firmware counts in one flush.
func (c *course) boot() {
	c.t.Helper()
	runs, err := c.plant.boot(c.Recorder)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = c.recorder.Sync()
	c.runs(runs)
}

// runs has a system be the one that runs, from now on.
func (c *course) runs(s System) {
	c.running, c.u = s, c.upgrader(c.recorder, s)
	c.boots++
	c.u.mutant, c.u.BootID = c.mutant, strconv.Itoa(c.boots)
}

func (c *course) run(v Verdict) Op {
	c.t.Helper()
	pack := noPackFor(c.plant, c.recorder)
	return step(c.t, c.u, v, pack)
}

// noPackFor is the pack of what is under way.
func noPackFor(p plant, k Keeper) Packed {
	if j, err := ReadJournal(k); err == nil && j != nil {
		return p.pack(j.Target.Version)
	}
	return noPack{}
}

// upgrade stages a version, and starts it.
func (c *course) upgrade(version string, w Wish) {
	c.t.Helper()
	at := slices.IndexFunc(c.releases, func(r release) bool { return r.Version == version })
	if err := c.u.Begin(c.releases[at].index, w, Facts{}); err != nil {
		c.t.Fatal(err)
	}
	c.restarts()
}

// restarts goes on until the machine is to restart, and starts it.
func (c *course) restarts() {
	c.t.Helper()
	if op := c.run(Verdict{}); op.Kind != Reboot {
		c.t.Fatalf("no restart: %v", op)
	}
	c.boot()
}

// back goes to the system in the other slot, which is of that version.
func (c *course) back(version string) {
	c.t.Helper()
	target, err := c.u.Back(Wish{}, false)
	if err != nil || target.Version != version {
		c.t.Fatalf("back to %s: %v", target.Version, err)
	}
	c.restarts()
	if c.running != target {
		c.t.Fatalf("%s runs, not %s", c.running.Version, version)
	}
}

// drill stages a drill, and starts it.
func (c *course) drill(by string) {
	c.t.Helper()
	c.drills = c.running
	if err := c.u.Drill(by, false); err != nil {
		c.t.Fatal(err)
	}
	c.restarts()
}

// drilled fails unless the drill is over, after so many boots.
func (c *course) drilled(boots int) {
	c.t.Helper()
	if op := c.run(Verdict{}); op.Kind != Nothing {
		c.t.Fatalf("after a drill: %v", op)
	}
	if c.running != c.drills {
		c.t.Fatalf("after a drill %s runs", c.running.Version)
	}
	if d, err := LastDrill(c.recorder); err != nil || d == nil || d.Problem != "" || d.Boots != boots {
		c.t.Fatalf("after %d boots the drill is %+v, %v", boots, d, err)
	}
}

// undecided looks at a trial of which nobody can tell.
func (c *course) undecided() {
	c.t.Helper()
	if op := c.run(Verdict{Word: Wait}); op.Kind != Observe {
		c.t.Fatalf("undecided: %v", op)
	}
}

// remembers fails unless a version is known to have failed.
func (c *course) remembers(version string) {
	c.t.Helper()
	failed, err := Failures(c.recorder)
	if err != nil || !slices.ContainsFunc(failed, func(f Failure) bool { return f.Version == version }) {
		c.t.Fatalf("remembers %v %v", failed, err)
	}
}

// wander is a life with everything in it that the machine does not refuse.
func (c *course) wander(rng *rand.Rand) {
	c.t.Helper()
	for range 12 {
		err := error(nil)
		switch rng.IntN(6) {
		case 0:
			_, err = c.u.Back(Wish{}, false)
		case 1:
			err = c.u.Drill([]string{DrillCheck, DrillPanic}[rng.IntN(2)], false)
		default:
			err = c.u.Begin(c.releases[rng.IntN(len(c.releases))].index, Wish{Again: true, Downgrade: true}, Facts{})
		}
		if errors.As(err, new(*Refusal)) {
			continue
		} else if err != nil {
			c.t.Fatal(err)
		}
		c.settle(rng)
	}
}

// settle goes on until nothing is left to do, with systems that are good, or bad, or
// hang.
func (c *course) settle(rng *rand.Rand) {
	c.t.Helper()
	for range 8 * Tries {
		j, err := ReadJournal(c.recorder)
		if err != nil {
			c.t.Fatal(err)
		}
		v := Verdict{Word: Good}
		if j != nil && j.Target == c.running {
			v = []Verdict{{Word: Bad, Reason: "ill"}, {Word: Wait}, {Word: Good}}[rng.IntN(3)]
			if v.Word == Good && j.Drill != nil || rng.IntN(4) == 0 { // It hangs.
				c.boot()
				continue
			}
		}
		op, err := c.u.Run(c.t.Context(), v, noPackFor(c.plant, c.recorder))
		switch {
		case err != nil && !errors.Is(err, errPanics):
			c.t.Fatal(err)
		case err != nil || op.Kind == Reboot:
			c.boot()
		case op.Kind == Nothing:
			return
		}
	}
	c.t.Fatal("it does not come to an end")
}

// lives are courses that have everything in them.
var lives = map[string]func(c *course){
	"good, good, and a third that fails": func(c *course) {
		c.upgrade("2.0.0", Wish{})
		c.run(Verdict{Word: Good})
		c.upgrade("3.0.0", Wish{})
		c.run(Verdict{Word: Good})
		c.upgrade("4.0.0", Wish{})
		for range Tries {
			c.boot()
		}
		c.run(Verdict{})
		c.remembers("4.0.0")
	},
	"nobody can tell, then good; nobody can tell in all boots": func(c *course) {
		c.upgrade("2.0.0", Wish{})
		c.undecided()
		c.run(Verdict{Word: Good})
		c.upgrade("3.0.0", Wish{})
		for range Tries {
			c.undecided()
			c.boot()
		}
		c.run(Verdict{})
		c.remembers("3.0.0")
	},
	"back, forward again, and down to one that fails": func(c *course) {
		c.upgrade("2.0.0", Wish{})
		c.run(Verdict{Word: Good})
		c.back("1.0.0")
		c.run(Verdict{Word: Good})
		c.remembers("2.0.0") // It does not come back by itself.
		c.back("2.0.0")
		c.run(Verdict{Word: Good})
		c.back("1.0.0")
		c.run(Verdict{Word: Bad, Reason: "ill"})
		c.boot()
		c.run(Verdict{})
		c.remembers("1.0.0")
		c.upgrade("3.0.0", Wish{})
		c.run(Verdict{Word: Good})
		c.upgrade("1.0.0", Wish{Downgrade: true, Again: true})
		for range Tries {
			c.boot()
		}
		c.run(Verdict{})
		c.remembers("1.0.0")
	},
	"a drill by a check, and one by a panic, beside another system": func(c *course) {
		c.upgrade("2.0.0", Wish{})
		c.run(Verdict{Word: Good})
		c.drill(DrillCheck)
		c.run(Verdict{Word: Bad, Reason: "on purpose"})
		c.boot()
		c.drilled(1)
		c.drill(DrillPanic)
		for range Tries {
			if _, err := c.u.Run(c.t.Context(), Verdict{}, noPack{}); !errors.Is(err, errPanics) {
				c.t.Fatalf("a drill by panic: %v", err)
			}
			c.boot()
		}
		c.drilled(Tries)
		c.back("1.0.0")
		c.run(Verdict{Word: Good})
		if refusal, is := errors.AsType[*Refusal](c.u.Drill(DrillCheck, true)); !is || refusal.Code != CodeNewer {
			c.t.Fatalf("a drill beside a newer system: %v", refusal)
		}
	},
	"a drill on a machine with one system": func(c *course) {
		c.drill(DrillCheck)
		c.run(Verdict{Word: Bad, Reason: "on purpose"})
		c.boot()
		c.drilled(1)
	},
	"bad by its own word, then again and good": func(c *course) {
		c.upgrade("2.0.0", Wish{})
		c.run(Verdict{Word: Bad, Reason: "ill"})
		c.boot()
		c.run(Verdict{})
		c.upgrade("2.0.0", Wish{Again: true})
		c.run(Verdict{Word: Good})
	},
}
