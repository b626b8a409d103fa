package fat

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os/exec"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/partitions/fat/dirent"
	"github.com/loam-os/loam/test/judge"
)

// crash checks every state that a power cut in a script can leave.
type crash struct {
	seed   maphash.Seed
	random *rand.Rand
	states atomic.Int64 // checked
	second atomic.Int64 // of these, cut again while they were reclaimed
	sample chan *memory // some, after Reclaim, for fsck.fat
	report func(format string, args ...any)
	// straddling: a set in two sectors is no fault
	straddling bool
}

// play does the step on the disk, with all flushes but one if that is not 0,
// and checks the states that it goes through. It returns what the disk has
// then.
func (c *crash) play(disk *memory, s step, skip int) *memory {
	before := &state{base: disk, over: map[int64][]byte{}}
	r := &recorder{Device: before.clone(), skip: skip}
	f, err := open(r, testSize, 512, 0, bootDir)
	if err != nil {
		c.report("%s: %v", s.name, err)
		return disk
	}

	old, oldErr := treeOf(f, c.seed)
	err = s.do(f)
	want, newErr := treeOf(f, c.seed)
	if err != nil || oldErr != nil || newErr != nil {
		c.report("%s: %v, %v, %v", s.name, err, oldErr, newErr)
		return disk
	}

	if len(r.now) > 0 && skip == 0 {
		c.report("%s: %d sectors are written and not flushed", s.name, len(r.now))
	}

	for i, epoch := range append(r.epochs, r.now) {
		c.all(fmt.Sprintf("%s, flush %d", s.name, i), before.cuts(epoch, c.random, 200), old, want)
		before = before.apply(epoch)
	}
	if f, err := open(before, testSize, 512, 0, bootDir); err == nil {
		if got, err := treeOf(f, c.seed); err != nil || !got.equal(want) {
			c.report("%s: is not durable: %v\n%s", s.name, err, cmp.Diff(want, got))
		}
	}

	return before.flatten()
}

// all checks states on every processor.
func (c *crash) all(name string, states func(func(*state) bool), trees ...tree) {
	work := make(chan *state, 16)
	wait := sync.WaitGroup{}
	for range 2 {
		wait.Go(func() {
			for s := range work {
				if err := c.check(s, trees...); err != nil {
					c.report("%s: %v", name, err)
				}
			}
		})
	}

	for s := range states {
		work <- s
	}

	close(work)
	wait.Wait()
}

// check: the state has one of the trees, complete, and Reclaim keeps that and
// leaves no fault. Some of the reclaims are cut too.
func (c *crash) check(s *state, trees ...tree) error {
	n := c.states.Add(1)
	r := &recorder{Device: s.clone()}
	got, err := c.recover(r, trees...)
	if err != nil {
		return err
	}

	if n%judge.Pick[int64](997, 499) == 0 {
		select {
		case c.sample <- r.Device.(*state).flatten():
		default:
		}
	}

	if n%judge.Pick[int64](25, 5) != 0 {
		return nil
	}

	for _, epoch := range r.epochs {
		for cut := range s.cuts(epoch, rand.New(rand.NewPCG(1, 2)), 10) {
			c.states.Add(1)
			c.second.Add(1)
			if _, err := c.recover(&recorder{Device: cut}, got); err != nil {
				return fmt.Errorf("reclaim cut: %w", err)
			}
		}
		s = s.apply(epoch)
	}

	return nil
}

// recover does what a node does after a power cut.
func (c *crash) recover(r *recorder, trees ...tree) (tree, error) {
	f, err := open(r, testSize, 512, 0, bootDir)
	if err != nil {
		return nil, err
	}

	got, err := treeOf(f, c.seed)
	if err != nil {
		return nil, err
	}

	if !slices.ContainsFunc(trees, got.equal) {
		return nil, fmt.Errorf("neither old nor new:\n%s\n%s",
			cmp.Diff(trees[0], got), cmp.Diff(trees[len(trees)-1], got))
	}

	if err := f.Reclaim(); err != nil {
		return nil, err
	}

	if len(r.epochs) > 0 { // it wrote
		f, err = open(r, testSize, 512, 0, bootDir)
		if err != nil {
			return nil, err
		}
		if again, err := treeOf(f, c.seed); err != nil || !again.equal(got) {
			return nil, fmt.Errorf("after reclaim: %v\n%s", err, cmp.Diff(got, again))
		}
	}

	report := f.Check()
	if c.straddling {
		report.Straddling = nil
	}

	if !report.Clean() {
		return nil, fmt.Errorf("after reclaim: %+v", report)
	}

	return got, nil
}

// small cuts the file system down to fewer clusters than a FAT32 has, so that a
// state takes a tenth of a millisecond. With scatter, all clusters are bad
// except the files' and every 130th: each chain then goes through many sectors
// of the FATs.
func small(t testing.TB, m *memory, scatter bool) *memory {
	t.Helper()
	const clusters = 8000
	f := opened(t, m)
	write := func(off int64, value uint32) {
		if _, err := m.WriteAt(binary.LittleEndian.AppendUint32(nil, value), off); err != nil {
			t.Fatal(err)
		}
	}

	for _, boot := range []int64{0, copySector * sectorSize} {
		write(boot+32, uint32((f.data+clusters*f.clusterSize)/sectorSize))
	}

	f, err := open(m, testSize, 512, 0, bootDir)
	if err != nil {
		t.Fatal(err)
	}

	free := f.freeClusters()
	for c := uint32(2); c <= f.last() && scatter; c++ {
		if f.fat.next(c) == 0 && c%130 != 0 {
			write(f.fatAt(0)+int64(4*c), bad)
			write(f.fatAt(1)+int64(4*c), bad)
			free--
		}
	}

	write(f.info+488, free)
	return m
}

func TestPowerCuts(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(300)) // each state reads the FATs again
	c := &crash{
		seed:   maphash.MakeSeed(),
		random: rand.New(rand.NewPCG(1, 1)),
		sample: make(chan *memory, 60),
		report: t.Errorf,
	}

	disks := []*memory{small(t, built(t), false), small(t, built(t), true)}
	for _, disk := range disks[:judge.PickOf(1, 2, 2)] {
		for _, s := range script() {
			disk = c.play(disk, s, 0)
			if t.Failed() {
				t.FailNow()
			}
		}
	}

	t.Logf("%d states, %d of them cuts of Reclaim, %d for fsck.fat",
		c.states.Load(), c.second.Load(), len(c.sample))
	if c.states.Load() < judge.PickOf[int64](5_000, 20_000, 50_000) {
		t.Errorf("%d states", c.states.Load())
	}

	close(c.sample)
	fsck := judge.Find(t, "fsck.fat")
	path := image(t)
	for m := range c.sample {
		m.file(t, path)
		if out, err := exec.Command(fsck, "-n", path).CombinedOutput(); err != nil {
			t.Fatalf("fsck.fat: %v\n%s", err, out)
		}
	}
}

// ghosts has entries behind the end of EFI/staging, which is at slot 3.
func ghosts(t testing.TB, m *memory) *memory {
	t.Helper()
	f, err := open(m, testSize, 512, 0, bootDir)
	if err != nil {
		t.Fatal(err)
	}

	d, err := f.directory("EFI/staging")
	if err != nil {
		t.Fatal(err)
	}

	for slot := d.end + 1; slot < d.slots(); slot++ {
		copy(d.at(slot), dirent.ShortSlot(dirent.Pad("GHOST", "EFI"), dirent.AttrArchive, 5, 9000))
	}

	if _, err := m.WriteAt(d.raw, f.offset(d.chain[0])); err != nil {
		t.Fatal(err)
	}

	return m
}

// endScript links behind the end: in its sector, into the next one, and to the
// end of a sector.
func endScript() (steps []step) {
	for _, length := range []int{60, 20, 21, 90, 22, 91} {
		name := strings.Repeat("x", length)
		steps = append(steps,
			step{fmt.Sprintf("link %d characters", length), put("EFI/staging", name, []byte(name))})
	}
	return steps
}

func TestPowerCutsAtTheEndOfADirectory(t *testing.T) {
	c := &crash{seed: maphash.MakeSeed(), random: rand.New(rand.NewPCG(1, 1)), report: t.Errorf}
	disk := ghosts(t, small(t, built(t), false))
	for _, s := range endScript() {
		disk = c.play(disk, s, 0)
	}
	t.Logf("%d states", c.states.Load())
}

// TestPowerCutsOfASetInTwoSectors: another driver may have left it there; it is
// removed completely.
func TestPowerCutsOfASetInTwoSectors(t *testing.T) {
	c := &crash{
		seed:       maphash.MakeSeed(),
		random:     rand.New(rand.NewPCG(1, 1)),
		report:     t.Errorf,
		straddling: true,
	}

	disk := built(t)
	slots("EFI/BOOT", func(d *directory) {
		for slot := 3; slot < 14; slot++ {
			d.at(slot)[0] = dirent.Free
		}
		d.put(14, set(newUKI, "LOAM-N~1.EFI"))
	})(t, disk, opened(t, disk))

	c.play(small(t, disk, false),
		step{"remove", func(f *FS) error { return f.Remove("EFI/BOOT/" + newUKI) }}, 0)
	t.Logf("%d states", c.states.Load())
}

// TestPowerCutsFindAMissingFlush: the checks above are worth something.
func TestPowerCutsFindAMissingFlush(t *testing.T) {
	judge.Long(t, "nothing: it tests the judges of TestPowerCuts, not the product")
	for _, tc := range []struct {
		name   string
		script []step
		step   string
		flush  int
	}{
		{"linked before its chain is durable", script(), "stage and link a UKI", 2},
		{"freed before its entry is gone", script(), "remove the old UKI", 1},
		{"freed before the new content counts", script(), "write it again, longer", 3},
		{"a directory linked before it is durable", script(), "make a directory", 2},
		{"an end moved to a sector that is not durable", endScript(), "link 21 characters", 3},
		{"a sector filled and the next not durably empty", endScript(), "link 90 characters", 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found := atomic.Int64{}
			c := &crash{seed: maphash.MakeSeed(), random: rand.New(rand.NewPCG(1, 1))}
			disk := ghosts(t, small(t, built(t), false))
			for _, s := range tc.script {
				if s.name == tc.step {
					c.report = func(string, ...any) { found.Add(1) }
					c.play(disk, s, tc.flush)
					break
				}
				f, err := open(disk, testSize, 512, 0, bootDir)
				if err == nil {
					err = s.do(f)
				}
				if err != nil {
					t.Fatal(err)
				}
			}

			if found.Load() == 0 {
				t.Error("not found")
			}
		})
	}
}
