package upgrade

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/loam-os/loam/test/firmware"
)

// moment is the machine as a power cut leaves it: what is on the disk, and the
// files of its state partition.
type moment struct {
	disk  firmware.Memory
	files map[string][]byte
}

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
	c.running, c.u = runs, c.upgrader(c.recorder, runs)
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

// each calls do for every moment of a life at which the power may go.
func (c *course) each(random int, do func(m moment)) {
	disk, files := maps.Clone(c.base), map[string][]byte{}
	for i, e := range c.events {
		if e.file != "" {
			files = maps.Clone(files)
			if files[e.file] = e.data; e.data == nil {
				delete(files, e.file)
			}
			continue
		}
		base := maps.Clone(disk)
		firmware.Subsets(e.writes, random, uint64(i), func(kept firmware.Sectors) { do(moment{firmware.Memory{Base: base, Over: kept}, files}) })
		for _, w := range e.writes {
			disk[w.Sector] = w.Data
		}
	}
	do(moment{firmware.NewMemory(maps.Clone(disk)), files})
}

// cut is the moment's disk, to be changed.
func (m moment) cut() firmware.Memory {
	return firmware.Memory{Base: m.disk.Base, Over: maps.Clone(m.disk.Over)}
}

// survives is what has to hold of a moment: the loader starts a whole system; if
// what is on trial never comes up, the one before it does within the tries.
func (p plant) survives(m moment) error {
	disk := m.cut()
	j, err := ReadJournal(keeper(m.files))
	if err != nil {
		return err
	}
	for i := 0; ; i++ {
		runs, err := p.boot(disk)
		switch {
		case err != nil:
			return fmt.Errorf("boot %d: %w", i, err)
		case j == nil || runs == j.From || p.blessed(disk, runs):
			return nil
		case runs != j.Target:
			return fmt.Errorf("boot %d starts %s, which nobody asked for", i, runs.Version)
		case i > Tries:
			return fmt.Errorf("after %d boots that fail it is still %s", i+1, runs.Version)
		}
	}
}

// blessed reports whether a system has an entry that does not count.
func (p plant) blessed(disk firmware.Disk, s System) bool {
	l, err := firmware.Open(disk, p.table.Partitions[0].Start)
	if err != nil {
		return false
	}
	all, err := l.Entries()
	return err == nil && slices.ContainsFunc(all, func(e firmware.Entry) bool { return e.Name == imageID+"_"+s.Version+"_x86-64.efi" })
}

// keeper reads files.
type keeper map[string][]byte

func (k keeper) Read(name string) ([]byte, error) { return (&recorder{files: k}).Read(name) }
func (keeper) Write(string, []byte) error         { return errors.New("read only") }
func (keeper) Remove(string) error                { return errors.New("read only") }

// finishes goes on from a moment with a target that is good or not, until nothing
// is left to do, and checks that this is as it should be.
func (p plant) finishes(t testing.TB, m moment, good bool) error {
	r := newRecorder(m.disk.Flat(), m.files)
	j, err := ReadJournal(r)
	if err != nil {
		return err
	}
	verdict := Verdict{Word: Bad, Reason: "ill"}
	if good {
		verdict.Word = Good
	}
	for i := range 3*Tries + 6 {
		runs, err := p.boot(r.Memory)
		if err != nil {
			return err
		}
		u := p.upgrader(r, runs)
		u.BootID = fmt.Sprint("after the cut, ", i)
		v := verdict
		switch {
		case j != nil && j.Drill != nil:
			v.Word = Bad
		case j == nil || runs != j.Target:
			v.Word = Good
		}
		op, err := u.Run(t.Context(), v, noPackFor(p, r))
		if errors.Is(err, errPanics) {
			continue
		}
		if err != nil {
			return fmt.Errorf("%s runs, %s: %w", runs.Version, op.Kind, err)
		}
		if op.Kind == Nothing {
			return p.clean(u, j, runs, good)
		}
	}
	return errors.New("it does not come to an end")
}

// clean checks a machine that has nothing left to do.
func (p plant) clean(u *Upgrader, j *Journal, runs System, good bool) (err error) {
	closeESP, err := u.open()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeESP()) }()
	if err := u.esp.Reclaim(); err != nil {
		return err
	}
	if report := u.esp.Check(); !report.Clean() {
		return fmt.Errorf("the ESP is not clean: %+v", report)
	}
	failed, err := Failures(u.Keep)
	if err != nil {
		return err
	}
	left, err := ReadJournal(u.Keep)
	switch {
	case err != nil:
		return err
	case left != nil:
		return fmt.Errorf("the journal stays: %+v", left)
	case j == nil:
		return nil
	case j.Drill != nil:
		if d, err := LastDrill(u.Keep); err != nil || d == nil {
			return fmt.Errorf("nobody knows how the drill went: %v", err)
		}
		if runs != j.Target {
			return fmt.Errorf("a drill of %s ends with %s", j.Target.Version, runs.Version)
		}
		return nil
	}
	remembered := slices.ContainsFunc(failed, func(f Failure) bool { return f.RootHash == j.Target.RootHash })
	switch {
	case good && runs != j.Target && !remembered:
		return fmt.Errorf("%s is good, and %s runs", j.Target.Version, runs.Version)
	case !good && runs == j.Target && !remembered:
		return nil // It was blessed before the cut.
	case !good && runs != j.Target && !remembered:
		return fmt.Errorf("%s has failed, and nobody remembers", j.Target.Version)
	}
	return nil
}

// TestCrashStates cuts the power at every moment of some lives, with all that a
// disk may then have. LOAM_CRASH_STATES is how many random ones of each flush, 40
// without.
func TestCrashStates(t *testing.T) {
	random := 40
	if text := os.Getenv("LOAM_CRASH_STATES"); text != "" {
		var err error
		if random, err = strconv.Atoi(text); err != nil {
			t.Fatal(err)
		}
	}
	for name, live := range lives {
		t.Run(name, func(t *testing.T) {
			c := newCourse(t, "1.0.0", "2.0.0", "3.0.0", "4.0.0")
			live(c)
			states, ended := c.tryAll(t, random)
			t.Logf("%d flushes and files, %d states, of which %d were gone on from", len(c.events), states, ended)
		})
	}
}

// sampled is one in how many moments is gone on from.
const sampled = 61

func (c *course) tryAll(t *testing.T, random int) (states, ended int64) {
	moments := make(chan moment, 64)
	var group sync.WaitGroup
	var n, done atomic.Int64
	for range runtime.NumCPU() {
		group.Go(func() {
			for m := range moments {
				at := n.Add(1)
				err := c.survives(m)
				for _, good := range []bool{true, false} {
					if err == nil && at%sampled == 0 {
						done.Add(1)
						err = c.finishes(t, m, good)
					}
				}
				if err != nil {
					t.Errorf("%d sectors of a flush kept: %v", len(m.disk.Over), err)
				}
			}
		})
	}
	c.each(random, func(m moment) {
		if !t.Failed() {
			moments <- m
		}
	})
	close(moments)
	group.Wait()
	return n.Load(), done.Load()
}
