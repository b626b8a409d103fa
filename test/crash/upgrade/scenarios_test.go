package upgrade_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/test/firmware"
)

// course is a machine's life with everything that was written in it.
type course struct {
	fixture
	t testing.TB
	*recorder
	base    firmware.Sectors
	running upgrade.System
	u       *upgrade.Upgrader
	mutant  func(v upgrade.View) upgrade.Op
	boots   int
	drills  upgrade.System
	// near is asked for chunks before the pack; nil if none.
	near fill.Nearby
}

func newCourse(t testing.TB, versions ...string) *course {
	p, disk := newFixture(t, versions...)
	return p.course(t, disk)
}

func (p fixture) course(t testing.TB, disk firmware.Sectors) *course {
	c := &course{
		fixture:  p,
		t:        t,
		recorder: newRecorder(disk, nil),
		base:     disk,
		running:  p.releases[0].System,
	}
	c.u = p.upgrader(c.recorder, c.running)
	return c
}

// boot starts the machine, with the try that the firmware counts in one flush.
func (c *course) boot() {
	c.t.Helper()
	runs, err := c.fixture.boot(c.Recorder)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = c.recorder.Sync()
	c.runs(runs)
}

// runs makes a system the running one.
func (c *course) runs(s upgrade.System) {
	c.running, c.u = s, c.upgrader(c.recorder, s)
	c.boots++
	c.u.Decide, c.u.Boot.ID = c.mutant, strconv.Itoa(c.boots)
}

func (c *course) run(v upgrade.Verdict) upgrade.Op {
	c.t.Helper()
	return step(c.t, c.u, v, fill.Sources{Nearby: c.near, Pack: noPackFor(c.fixture, c.recorder)})
}

// node is what the upgrader of this boot knows as its node.
func (c *course) node() *node { return c.u.Host.(*node) }

// target is the slot that does not run.
func (c *course) target() (gpt.Table, partitions.Slot, error) {
	return c.fixture.target(c.recorder, c.running)
}

// onESP calls do with the file system of the ESP.
func (c *course) onESP(do func(files *fat.FS) error) {
	c.t.Helper()
	if err := c.fixture.onESP(c.recorder, do); err != nil {
		c.t.Fatal(err)
	}
}

// noPackFor returns the pack of the upgrade that is under way, without its
// chunks.
func noPackFor(p fixture, k records.Store) fill.Pack {
	if j, err := upgrade.ReadJournal(k); err == nil && j != nil {
		return p.pack(j.Target.Version)
	}
	return noPack{}
}

// packOnly are sources without mirrors.
func packOnly(pack fill.Pack) fill.Sources { return fill.Sources{Pack: pack} }

// upgrade stages a version, and starts it.
func (c *course) upgrade(version string, w upgrade.Options) {
	c.t.Helper()
	at := slices.IndexFunc(c.releases, func(r release) bool { return r.Version == version })
	if err := c.u.Begin(c.releases[at].index, w, upgrade.Facts{}); err != nil {
		c.t.Fatal(err)
	}
	c.restarts()
}

// restarts goes on until the machine is to restart, and starts it.
func (c *course) restarts() {
	c.t.Helper()
	if op := c.run(upgrade.Verdict{}); op.Kind != upgrade.Reboot {
		c.t.Fatalf("no restart: %v", op)
	}
	c.boot()
}

// back goes back to the system in the other slot, which has that version.
func (c *course) back(version string) {
	c.t.Helper()
	target, err := c.u.Rollback(upgrade.Options{}, false)
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
	if op := c.run(upgrade.Verdict{}); op.Kind != upgrade.Nothing {
		c.t.Fatalf("after a drill: %v", op)
	}

	if c.running != c.drills {
		c.t.Fatalf("after a drill %s runs", c.running.Version)
	}

	d, err := upgrade.LastDrill(c.recorder)
	if err != nil || d == nil || d.Problem != "" || d.Boots != boots {
		c.t.Fatalf("after %d boots the drill is %+v, %v", boots, d, err)
	}
}

// undecided looks at a trial without a verdict.
func (c *course) undecided() {
	c.t.Helper()
	if op := c.run(upgrade.Verdict{Word: upgrade.Wait}); op.Kind != upgrade.Observe {
		c.t.Fatalf("undecided: %v", op)
	}
}

// remembers fails unless a version is known to have failed.
func (c *course) remembers(version string) {
	c.t.Helper()
	failed, err := upgrade.Failures(c.recorder)
	if err != nil || !slices.ContainsFunc(failed, func(f upgrade.Failure) bool {
		return f.Version == version
	}) {
		c.t.Fatalf("remembers %v %v", failed, err)
	}
}

// wander is a life with everything in it that the machine does not refuse.
func (c *course) wander(rng *rand.Rand) {
	c.t.Helper()
	for range 12 {
		err := error(nil)
		switch rng.IntN(7) {
		case 0:
			_, err = c.u.Rollback(upgrade.Options{}, false)
		case 1:
			err = c.u.Drill([]string{upgrade.DrillCheck, upgrade.DrillPanic}[rng.IntN(2)], false)
		case 2:
			err = c.u.Begin(c.releases[rng.IntN(len(c.releases))].index,
				upgrade.Options{Again: true, Downgrade: true}, upgrade.Facts{})
			if err != nil {
				break
			}
			_, err = c.u.Run(c.t.Context(), upgrade.Verdict{},
				packOnly(noPackFor(c.fixture, c.recorder)))
			if err == nil {
				_, err = c.u.Cancel()
			}
		default:
			err = c.u.Begin(c.releases[rng.IntN(len(c.releases))].index,
				upgrade.Options{Again: true, Downgrade: true}, upgrade.Facts{})
		}

		if fault.Of(err).Class() == fault.ClassRefused {
			continue
		} else if err != nil {
			c.t.Fatal(err)
		}

		c.finish(rng)
	}
}

// finish goes on until nothing is left to do, with systems that are good, or
// bad, or hang.
func (c *course) finish(rng *rand.Rand) {
	c.t.Helper()
	for range 8 * upgrade.Tries {
		j, err := upgrade.ReadJournal(c.recorder)
		if err != nil {
			c.t.Fatal(err)
		}

		v := upgrade.Verdict{Word: upgrade.Good}
		if j != nil && j.Target == c.running {
			v = []upgrade.Verdict{
				{Word: upgrade.Bad, Reason: "ill"},
				{Word: upgrade.Wait},
				{Word: upgrade.Good},
			}[rng.IntN(3)]
			if (v.Word == upgrade.Good && j.Drill != nil) || rng.IntN(4) == 0 { // It hangs.
				c.boot()
				continue
			}
		}

		op, err := c.u.Run(c.t.Context(), v, packOnly(noPackFor(c.fixture, c.recorder)))
		switch {
		case err != nil && !errors.Is(err, errPanics):
			c.t.Fatal(err)
		case err != nil || op.Kind == upgrade.Reboot:
			c.boot()
		case op.Kind == upgrade.Nothing:
			return
		}
	}

	c.t.Fatal("it does not come to an end")
}

// cancel ends what is under way, and goes on with the running system.
func (c *course) cancel() {
	c.t.Helper()
	stays := c.running
	if _, err := c.u.Cancel(); err != nil {
		c.t.Fatal(err)
	}
	if op := c.run(upgrade.Verdict{}); op.Kind != upgrade.Nothing {
		c.t.Fatalf("canceled: %v", op)
	}
	c.boot()
	if j, err := upgrade.ReadJournal(c.recorder); c.running != stays || j != nil || err != nil {
		c.t.Fatalf("canceled: %s runs, journal %v, %v", c.running.Version, j, err)
	}
}

// scenarios are courses that have everything in them.
var scenarios = map[string]func(c *course){
	"good, good, and a third that fails": func(c *course) {
		c.upgrade("2.0.0", upgrade.Options{})
		c.run(upgrade.Verdict{Word: upgrade.Good})
		c.upgrade("3.0.0", upgrade.Options{})
		c.run(upgrade.Verdict{Word: upgrade.Good})
		c.upgrade("4.0.0", upgrade.Options{})

		for range upgrade.Tries {
			c.boot()
		}

		c.run(upgrade.Verdict{})
		c.remembers("4.0.0")
	},
	"no verdict, then good; no verdict in all boots": func(c *course) {
		c.upgrade("2.0.0", upgrade.Options{})
		c.undecided()
		c.run(upgrade.Verdict{Word: upgrade.Good})
		c.upgrade("3.0.0", upgrade.Options{})

		for range upgrade.Tries {
			c.undecided()
			c.boot()
		}

		c.run(upgrade.Verdict{})
		c.remembers("3.0.0")
	},
	"back, forward again, and down to one that fails": func(c *course) {
		c.upgrade("2.0.0", upgrade.Options{})
		c.run(upgrade.Verdict{Word: upgrade.Good})
		c.back("1.0.0")
		c.run(upgrade.Verdict{Word: upgrade.Good})
		c.remembers("2.0.0") // It does not come back by itself.
		c.back("2.0.0")
		c.run(upgrade.Verdict{Word: upgrade.Good})
		c.back("1.0.0")
		c.run(upgrade.Verdict{Word: upgrade.Bad, Reason: "ill"})
		c.boot()
		c.run(upgrade.Verdict{})
		c.remembers("1.0.0")
		c.upgrade("3.0.0", upgrade.Options{})
		c.run(upgrade.Verdict{Word: upgrade.Good})
		c.upgrade("1.0.0", upgrade.Options{Downgrade: true, Again: true})

		for range upgrade.Tries {
			c.boot()
		}

		c.run(upgrade.Verdict{})
		c.remembers("1.0.0")
	},
	"a drill by a check, and one by a panic, beside another system": func(c *course) {
		c.upgrade("2.0.0", upgrade.Options{})
		c.run(upgrade.Verdict{Word: upgrade.Good})
		c.drill(upgrade.DrillCheck)
		c.run(upgrade.Verdict{Word: upgrade.Bad, Reason: "on purpose"})
		c.boot()
		c.drilled(1)
		c.drill(upgrade.DrillPanic)

		for range upgrade.Tries {
			_, err := c.u.Run(c.t.Context(), upgrade.Verdict{}, packOnly(noPack{}))
			if !errors.Is(err, errPanics) {
				c.t.Fatalf("a drill by panic: %v", err)
			}
			c.boot()
		}

		c.drilled(upgrade.Tries)
		c.back("1.0.0")
		c.run(upgrade.Verdict{Word: upgrade.Good})

		err := c.u.Drill(upgrade.DrillCheck, true)
		if fault.Of(err) != fault.NewerInOtherSlot {
			c.t.Fatalf("a drill beside a newer system: %v", err)
		}
	},
	"a drill on a machine with one system": func(c *course) {
		c.drill(upgrade.DrillCheck)
		c.run(upgrade.Verdict{Word: upgrade.Bad, Reason: "on purpose"})
		c.boot()
		c.drilled(1)
	},
	"canceled when it is armed, then again and good, then canceled on the way back": func(c *course) {
		if err := c.u.Begin(c.releases[1].index, upgrade.Options{}, upgrade.Facts{}); err != nil {
			c.t.Fatal(err)
		}
		c.run(upgrade.Verdict{})
		c.cancel()
		if failed, _ := upgrade.Failures(c.recorder); len(failed) > 0 {
			c.t.Fatalf("canceled, and remembered as %v", failed)
		}

		c.upgrade("2.0.0", upgrade.Options{})
		c.run(upgrade.Verdict{Word: upgrade.Good})
		if _, err := c.u.Rollback(upgrade.Options{}, false); err != nil {
			c.t.Fatal(err)
		}
		c.run(upgrade.Verdict{})
		c.cancel()
		c.back("1.0.0") // It is still there.
		c.run(upgrade.Verdict{Word: upgrade.Good})
	},
	"bad by its own word, then again and good": func(c *course) {
		c.upgrade("2.0.0", upgrade.Options{})
		c.run(upgrade.Verdict{Word: upgrade.Bad, Reason: "ill"})
		c.boot()
		c.run(upgrade.Verdict{})
		c.upgrade("2.0.0", upgrade.Options{Again: true})
		c.run(upgrade.Verdict{Word: upgrade.Good})
	},
}
