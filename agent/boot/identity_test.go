package boot

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/google/uuid"

	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/loadoption"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/test/firmware"
)

// recorder is a disk that records its writes by sector. A flush ends an epoch.
type recorder struct {
	firmware.Memory
	epochs [][]sector
}

type sector struct {
	offset int64
	data   []byte
}

func (r *recorder) WriteAt(p []byte, off int64) (int, error) {
	last := len(r.epochs) - 1
	for at := 0; at < len(p); at += 512 {
		data := bytes.Clone(p[at : at+512])
		r.epochs[last] = append(r.epochs[last], sector{off + int64(at), data})
	}
	return r.Memory.WriteAt(p, off)
}

func (r *recorder) Sync() error {
	r.epochs = append(r.epochs, nil)
	return nil
}

// cuts are the writes that a power cut in the latest epoch may leave: all up to
// one, all but one, and one alone.
func cuts(epoch []sector) (states [][]sector) {
	for i := range epoch {
		states = append(states, epoch[:i],
			slices.Concat(epoch[:i], epoch[i+1:]), epoch[i:i+1])
	}
	return append(states, epoch)
}

// TestAFirstBootThatIsCutOff: wherever the power fails while the disk gets its
// identity, it has all of the old one or all of the new one, and the next boot
// completes it.
func TestAFirstBootThatIsCutOff(t *testing.T) {
	isCutOff(t, with(image(machine()), 6, func(c *Content) { c.Filesystem = FilesystemEmpty }))
}

// TestALaterIdentityThatIsCutOff is the same on a machine that an early version
// installed. The boot options stay as they are if the power fails before they are
// renewed: the disk still has its name \EFI\BOOT.
func TestALaterIdentityThatIsCutOff(t *testing.T) { isCutOff(t, image(machine())) }

func isCutOff(t *testing.T, f Facts) {
	f.LoaderPartition = f.Disks[0].Table.Partitions[0].UUID
	public := *f.Disks[0].Table

	fresh := firmware.NewMemory(nil)
	if err := public.Create(fresh); err != nil {
		t.Fatal(err)
	}

	d, err := Decide(f)
	if err != nil || d.State.Table == nil {
		t.Fatalf("%+v, %v", d.State, err)
	}

	disk := &recorder{firmware.NewMemory(fresh.Flat()), make([][]sector, 1)}
	if err := d.State.Table.Write(disk); err != nil {
		t.Fatal(err)
	}

	states := 0
	done := firmware.NewMemory(fresh.Flat())
	for _, epoch := range disk.epochs {
		for _, written := range cuts(epoch) {
			left := firmware.NewMemory(done.Flat())
			for _, s := range written {
				if _, err := left.WriteAt(s.data, s.offset); err != nil {
					t.Fatal(err)
				}
			}
			completes(t, f, left)
			states++
		}

		for _, s := range epoch {
			if _, err := done.WriteAt(s.data, s.offset); err != nil {
				t.Fatal(err)
			}
		}
	}

	if states < 100 {
		t.Errorf("only %d states", states)
	}
}

// completes boots a disk that a cut has left.
func completes(t *testing.T, f Facts, disk firmware.Memory) {
	t.Helper()
	table, err := gpt.Read(disk, f.Disks[0].Size, 512)
	if err != nil {
		t.Fatalf("no table is left: %v", err)
	}

	esp := table.Partitions[0].UUID
	if partitions.Public(table.DiskGUID) != partitions.Public(esp) ||
		partitions.Public(esp) != partitions.Public(table.Partitions[5].UUID) {
		t.Fatalf("half an identity: %+v", table)
	}

	// The loader reads the table as we do.
	f.LoaderPartition = esp
	f.Identity = partitions.Identity{
		Disk:  uuid.UUID{6: 0x40, 15: 31},
		ESP:   uuid.UUID{6: 0x40, 15: 32},
		State: uuid.UUID{6: 0x40, 15: 33},
	}
	f.Disks = slices.Clone(f.Disks)
	f.Disks[0].Table = &table
	f.Disks[0].Damage = ""
	if !table.Source.Healthy() {
		f.Disks[0].Damage = damage(table.Source)
	}

	d, err := Decide(f)
	if err != nil {
		t.Fatal(err)
	}
	if d.State.Table != nil {
		if err := d.State.Table.Write(disk); err != nil {
			t.Fatal(err)
		}
	}

	after, err := gpt.Read(disk, f.Disks[0].Size, 512)
	switch {
	case err != nil || !after.Source.Healthy():
		t.Fatalf("after the next boot: %+v, %v", after.Source, err)
	case partitions.Public(after.DiskGUID):
		t.Fatal("the next boot leaves the identity of the image")
	case f.Disks[0].Contents[6].Filesystem == FilesystemEmpty &&
		d.State.ESP != after.Partitions[0].UUID:
		t.Fatalf("boot options get %s, the ESP has %s", d.State.ESP, after.Partitions[0].UUID)
	}
}

func TestBootOptionsOfTheImageAreRenewed(t *testing.T) {
	sys := t.TempDir()
	old := uuid.UUID{6: 0x80, 15: 12} // of the release that it was installed with
	if err := renewOptions(sys, hash, old, own.ESP); err != nil {
		t.Errorf("a machine without variables: %v", err)
	}
	if err := os.MkdirAll(filepath.Join(sys, efivar.Dir), 0o755); err != nil {
		t.Fatal(err)
	}

	option := func(id uuid.UUID) []byte {
		return loadoption.Option{Description: "UEFI OS", Partition: 1, ID: id}.Encode()
	}
	images := partitions.ImageESP(rootHashBytes)
	for name, value := range map[string][]byte{
		"Boot0000": option(uuid.UUID{1}),
		"Boot0001": option(images),
		"Boot0002": option(old),
		"Boot000A": []byte("?"),
	} {
		if err := efivar.Write(sys, name, efivar.Global, value); err != nil {
			t.Fatal(err)
		}
	}

	for range 2 {
		if err := renewOptions(sys, hash, old, own.ESP); err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string][]byte{
			"Boot0000": option(uuid.UUID{1}),
			"Boot0001": option(own.ESP),
			"Boot0002": option(own.ESP),
			"Boot000A": []byte("?"),
		} {
			have, err := efivar.Read(os.DirFS(sys), name, efivar.Global)
			if err != nil || !bytes.Equal(have, want) {
				t.Errorf("%s: %x, %v; want %x", name, have, err, want)
			}
		}
	}
}

// TestABootCountMeansATrial: the loader's variable says so, also one that cannot be
// read. A machine without UEFI has none.
func TestABootCountMeansATrial(t *testing.T) {
	const name = efivar.Dir + "/LoaderBootCountPath-" + efivar.Loader
	for _, test := range []struct {
		name string
		sys  fstest.MapFS
		want bool
	}{
		{"no UEFI", fstest.MapFS{}, false},
		{"no tries", fstest.MapFS{efivar.Dir: {Mode: fs.ModeDir | 0o755}}, false},
		{"tries", fstest.MapFS{name: {Data: []byte("\x06\x00\x00\x00\\\x00")}}, true},
		{"a variable that is cut off", fstest.MapFS{name: {Data: []byte("\x06")}}, true},
	} {
		if got := isCounted(test.sys); got != test.want {
			t.Errorf("%s: %t, want %t", test.name, got, test.want)
		}
	}
}
