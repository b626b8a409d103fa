package firmware

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/uuid"

	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
)

const (
	espSize  = 528 << 20
	espStart = gpt.Alignment
	diskSize = espStart + espSize + gpt.Alignment
)

// recovers is the system of the recovery entry.
const recovers = 120

// newDisk returns a disk with the ESP of an image and a blessed entry. Without
// a tools tree its loader cannot run.
func newDisk(t testing.TB, first system) Sectors {
	t.Helper()
	systemdBoot, err := os.ReadFile(filepath.Join(os.Getenv("LOAM_TOOLS_TREE"),
		loader.Installed("amd64")))
	if err != nil {
		systemdBoot = []byte("loader")
	}

	disk := NewMemory(nil)
	table := gpt.Table{
		DiskGUID:   uuid.NewSHA1(uuid.Nil, []byte("disk")),
		SectorSize: SectorSize,
		DiskSize:   diskSize,
	}

	table.Partitions = []gpt.Partition{{
		Index: 1,
		Type:  partitions.TypeUUID(partitions.ESP, "amd64"),
		UUID:  uuid.NewSHA1(uuid.Nil, []byte("esp")),
		Label: "esp",
		Start: espStart,
		Size:  espSize,
	}}

	if err := table.Create(disk); err != nil {
		t.Fatal(err)
	}

	err = esp.Write(io.NewOffsetWriter(disk, espStart), espSize, SectorSize, 1, []esp.File{
		{Path: loader.Path("amd64"), Data: systemdBoot},
		{Path: loader.RecoveryUKI, Data: newSystem(t, recovers).uki},
		{Path: loader.RecoveryEntry, Data: []byte(loader.RecoveryText), ReadOnly: true},
		{Path: "loader/loader.conf", Data: []byte("timeout 0\neditor no\n")},
		{Path: bootentry.Dir + "/" + first.file(t, false), Data: first.uki},
	})
	if err != nil {
		t.Fatal(err)
	}

	return disk.Flat()
}

// file is the name of the system's entry, blessed, or with three tries.
func (s system) file(t testing.TB, counted bool) string {
	t.Helper()
	n := bootentry.Name{ImageID: "loam-node-os", Version: s.version, Arch: "x86-64"}
	if counted {
		n.Counted = true
		n.TriesLeft = 3
	}

	file, err := bootentry.Format(n)
	if err != nil {
		t.Fatal(err)
	}

	return file
}

// section is the ESP of a disk, as partitions/fat has it.
type section struct{ *Recorder }

func (s section) ReadAt(p []byte, off int64) (int, error) {
	return s.Recorder.ReadAt(p, espStart+off)
}
func (s section) WriteAt(p []byte, off int64) (int, error) {
	return s.Recorder.WriteAt(p, espStart+off)
}

// edit changes the ESP of a disk as the agent does.
func edit(t testing.TB, r *Recorder, do func(f *fat.FS) error) {
	t.Helper()
	f, err := bootdir.Open(section{r}, espSize, SectorSize)
	if err == nil {
		err = do(f)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// place is how an entry gets its place: bootdir.Link, or linkAnywhere.
type place func(f *fat.FS, name string, c fat.Chain, size int64) error

// linkAnywhere gives an entry the first place that is free.
func linkAnywhere(f *fat.FS, name string, c fat.Chain, size int64) error {
	return f.Link(bootentry.Dir, name, c, size)
}

// put places an entry with three tries.
func put(t testing.TB, s system, link place) func(f *fat.FS) error {
	return func(f *fat.FS) error {
		size := int64(len(s.uki))
		c, err := f.Stage(bytes.NewReader(s.uki), size)
		if err != nil {
			return err
		}
		return link(f, s.file(t, true), c, size)
	}
}

// update upgrades to a system that stays if it is good, and falls back after
// three tries otherwise. It returns the system that stays.
func update(t testing.TB, r *Recorder, old, trial system, link place, good bool) system {
	t.Helper()
	edit(t, r, put(t, trial, link))
	starts := 4
	stays := old
	goes := trial

	if good {
		starts = 1
		stays = trial
		goes = old
	}

	for range starts {
		boot(t, r)
	}

	edit(t, r, func(f *fat.FS) error { return bless(t, f, stays) })
	edit(t, r, func(f *fat.FS) error {
		name, err := entryFile(f, goes)
		return errors.Join(err, f.Remove(bootentry.Dir+"/"+name))
	})

	return stays
}

// bless takes the tries from the name of a system's entry.
func bless(t testing.TB, f *fat.FS, s system) error {
	name, err := entryFile(f, s)
	if err != nil || name == s.file(t, false) {
		return err
	}
	return f.Rename(bootentry.Dir, name, s.file(t, false), false)
}

// entryFile is the name that a system's entry has.
func entryFile(f *fat.FS, s system) (string, error) {
	entries, err := f.ReadDir(bootentry.Dir)
	for _, e := range entries {
		if n, _ := nameOf(e.Name); n.Version == s.version { // a filler has no content
			return e.Name, err
		}
	}
	return "", errors.Join(err, errors.New(s.version+" has no entry"))
}

// boot is a start of the machine by the model, which is durable.
func boot(t testing.TB, r *Recorder) Entry {
	t.Helper()
	l, err := Open(r, espStart)
	if err != nil {
		t.Fatal(err)
	}

	e, err := l.Boot()
	err = errors.Join(err, r.Sync())
	if err != nil {
		t.Fatal(err)
	}

	return e
}

// history is a disk after so many updates, every third of which failed, with
// the system that it has, and the next.
func history(t testing.TB, updates int, link place) (r *Recorder, old, next system) {
	t.Helper()
	old = newSystem(t, 1)
	r = NewRecorder(newDisk(t, old))
	for i := range updates {
		old = update(t, r, old, newSystem(t, i+2), link, i%3 != 2)
	}

	return NewRecorder(r.Flat()), old, newSystem(t, updates+2)
}
