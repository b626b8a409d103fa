package upgrade_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/test/firmware"
)

// breakBootDir has as many FATs say that the directory of boot entries ends
// before it begins, as a torn write of the firmware's can.
func (c *course) breakBootDir(fats int64) {
	c.t.Helper()
	part := c.table.Partitions[0]
	head := make([]byte, 64)
	if _, err := c.ReadAt(head, part.Start); err != nil {
		c.t.Fatal(err)
	}

	le := binary.LittleEndian
	reserved := int64(le.Uint16(head[14:]))
	perFAT := int64(le.Uint32(head[36:]))
	perCluster := int64(head[13])
	fat1 := part.Start + reserved*sector
	data := part.Start + (reserved+2*perFAT)*sector

	// The directory is the first on the disk whose first entries are . and ..
	// and a filler.
	for cluster := int64(2); cluster < 100; cluster++ {
		b := make([]byte, 128)
		if _, err := c.ReadAt(b, data+(cluster-2)*perCluster*sector); err != nil {
			c.t.Fatal(err)
		}
		if !bytes.HasPrefix(b[64:], []byte("FILLER0 ")) {
			continue
		}

		for n := range fats {
			if _, err := c.WriteAt(make([]byte, 4), fat1+n*perFAT*sector+4*cluster); err != nil {
				c.t.Fatal(err)
			}
		}

		return
	}

	c.t.Fatal("no directory of boot entries")
}

// starts is boot, or the system of the recovery entry if the loader has no
// other.
func (p fixture) starts(disk firmware.Disk) (upgrade.System, error) {
	l, err := firmware.Open(disk, p.table.Partitions[0].Start)
	if err != nil {
		return upgrade.System{}, err
	}
	if all, err := l.Entries(); err == nil && len(all) > 0 {
		return p.boot(disk)
	}

	content, err := l.File(loader.RecoveryUKI)
	if err != nil {
		return upgrade.System{}, err
	}

	r, err := p.releaseOf(content)
	return r.System, err
}

// recovers starts the machine, by the recovery entry.
func (c *course) recovers() {
	c.t.Helper()
	if _, err := c.fixture.boot(c.Recorder); err == nil {
		c.t.Fatal("the loader has an entry")
	}
	runs, err := c.starts(c.Recorder)
	if err != nil {
		c.t.Fatal(err)
	}
	c.runs(runs)
}

// TestTheOracleSeesWhatIsBesideTheEntries: a spare that is broken does not
// survive.
func TestTheOracleSeesWhatIsBesideTheEntries(t *testing.T) {
	write := func(path string, content []byte) func(c *course) error {
		return func(c *course) error {
			return c.fixture.onESP(c.recorder, func(files *fat.FS) error {
				return files.WriteFile(path, content)
			})
		}
	}

	torn := firmware.SystemdBoot("257.1")
	torn[len(torn)-1]++
	for name, breaks := range map[string]func(c *course) error{
		"a foreign recovery entry": write(loader.RecoveryUKI, []byte("MZ")),
		"a recovery entry of what is not there": func(c *course) error {
			return write(loader.RecoveryUKI, c.releases[1].uki)(c)
		},
		"a loader that is torn": write(loader.Path(arch), torn),
		"a slot that is not what its UKI starts": func(c *course) error {
			_, err := c.WriteAt([]byte{1}, c.table.Partitions[3].Start)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCourse(t, "1.0.0", "2.0.0")
			if err := c.spare(c.Recorder); err != nil {
				t.Fatal(err)
			}
			if err := breaks(c); err != nil {
				t.Fatal(err)
			}
			if err := c.spare(c.Recorder); err == nil {
				t.Error("the status does not show it")
			}
		})
	}
}

func TestRecoveryEntryHasTheLastGoodSystem(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
	has := func(of int) {
		t.Helper()
		if !bytes.Equal(c.fileOnESP(loader.RecoveryUKI), c.releases[of].uki) {
			t.Errorf("it is not %s", c.releases[of].Version)
		}
	}

	has(0)
	c.upgrade("2.0.0", upgrade.Options{})
	has(0)
	c.run(upgrade.Verdict{Word: upgrade.Good})
	has(1)
	c.back("1.0.0")
	has(1)
	c.run(upgrade.Verdict{Word: upgrade.Good})
	has(0)
	c.upgrade("3.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Bad, Reason: "ill"})
	c.boot()
	c.run(upgrade.Verdict{})
	has(0)
}

func TestEntriesThatAreGoneComeBack(t *testing.T) {
	remove := func(c *course, version string) {
		c.onESP(func(files *fat.FS) error {
			return files.Remove(bootentry.Dir + "/" + imageID + "_" + version + "_x86-64.efi")
		})
	}

	for _, tc := range []struct {
		name   string
		breaks func(c *course)
	}{
		{"an empty directory", func(c *course) { remove(c, "1.0.0"); remove(c, "2.0.0") }},
		{"a directory that cannot be read", func(c *course) { c.breakBootDir(2) }},
		{"a directory that only the second FAT knows", func(c *course) { c.breakBootDir(1) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
			c.upgrade("2.0.0", upgrade.Options{})
			c.run(upgrade.Verdict{Word: upgrade.Good})
			tc.breaks(c)
			c.recovers()
			var told []upgrade.OpKind
			c.u.Listener = hearing{done: func(op upgrade.Op) { told = append(told, op.Kind) }}

			op := c.run(upgrade.Verdict{})
			if op.Kind != upgrade.Nothing ||
				!slices.Equal(told, []upgrade.OpKind{upgrade.Restore}) {
				t.Fatalf("%v, then %v", told, op)
			}

			if err := c.clean(c.recorder, nil, c.running, true); err != nil {
				t.Error(err)
			}

			c.boot()
			c.upgrade("3.0.0", upgrade.Options{})
			c.run(upgrade.Verdict{Word: upgrade.Good})
			c.back("2.0.0")
		})
	}
}

// TestTheRecoveryEntryOutlivesItsSlot has a recovery entry that could not be
// renewed in time.
func TestTheRecoveryEntryOutlivesItsSlot(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
	c.upgrade("2.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Good})

	c.onESP(func(files *fat.FS) error {
		return files.WriteFile(loader.RecoveryUKI, c.releases[0].uki)
	})

	c.upgrade("3.0.0", upgrade.Options{})
	if err := c.spare(c.Recorder); err != nil {
		t.Error(err)
	}
}

// TestAnEntryThatIsDamagedIsRepaired: what the loader would start is not what
// the name says.
func TestAnEntryThatIsDamagedIsRepaired(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
	c.upgrade("2.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Good})
	name := bootentry.Dir + "/" + imageID + "_2.0.0_x86-64.efi"
	c.onESP(func(files *fat.FS) error { return files.WriteFile(name, make([]byte, 1000)) })
	c.run(upgrade.Verdict{})
	c.upgrade("3.0.0", upgrade.Options{})

	if !bytes.Equal(c.fileOnESP(name), c.releases[1].uki) {
		t.Error("it is as it was")
	}
}

func TestADirectoryThatIsLostInATrialEndsIt(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	c.upgrade("2.0.0", upgrade.Options{})
	c.breakBootDir(2)

	_, err := c.u.Run(t.Context(), upgrade.Verdict{Word: upgrade.Good}, packOnly(noPack{}))
	if err == nil {
		t.Error("a trial whose entry cannot be read ends well")
	}

	c.recovers()
	if c.running.Version != "1.0.0" {
		t.Fatalf("%s runs", c.running.Version)
	}

	c.restarts()
	c.run(upgrade.Verdict{Word: upgrade.Good})

	if c.running.Version != "2.0.0" {
		t.Errorf("%s runs in the end", c.running.Version)
	}
}

func TestASignatureThatCannotBeWrittenIsLeftOut(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	_, slot, err := c.target()
	if err != nil {
		t.Fatal(err)
	}

	before := c.u.Disk.Partitions
	c.u.Disk.Partitions = opening{before, func(p gpt.Partition) (disk.Closer, error) {
		if p.Index == slot.Sig {
			return nil, errors.New("in use")
		}
		return before.Open(p)
	}}

	if err := c.u.Begin(c.releases[1].index, upgrade.Options{}, upgrade.Facts{}); err != nil {
		t.Fatal(err)
	}
	if op := c.run(upgrade.Verdict{}); op.Kind != upgrade.Reboot {
		t.Errorf("it is not tried: %v", op)
	}

	table, _, err := c.target()
	if label := table.Partition(slot.Sig).Label; err != nil || label != partitions.EmptyLabel {
		t.Errorf("the place of the signature is %s, %v", label, err)
	}
}
