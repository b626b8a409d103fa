package install

import (
	"bytes"
	"crypto/rand"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
	"github.com/loam-os/loam/test/firmware"
	"github.com/loam-os/loam/test/judge"
)

const gib = 1 << 30

// table is the partition table of a disk with a system in slot A.
func table(t *testing.T, hash [32]byte) gpt.Table {
	t.Helper()
	defs, err := partitions.Definitions()
	if err != nil {
		t.Fatal(err)
	}

	table, err := partitions.Place(defs, partitions.Params{
		Arch:       "amd64",
		RootHash:   hash,
		ImageID:    "loam",
		Version:    "1",
		SectorSize: 512,
	})
	if err != nil {
		t.Fatal(err)
	}

	return table
}

func TestDecide(t *testing.T) {
	disk := func(device string, change ...func(*Candidate)) Candidate {
		d := Candidate{Disk: volume.Disk{
			Device:     device,
			Size:       100 * gib,
			SectorSize: 512,
			Serial:     "S-" + device[len("/dev/"):],
			Model:      "FAST",
		}}
		for _, c := range change {
			c(&d)
		}
		return d
	}

	evidence := func(names ...string) func(*Candidate) {
		return func(d *Candidate) {
			for _, n := range names {
				d.Content.Evidence = append(d.Content.Evidence, volume.Evidence{Name: n})
			}
		}
	}

	loam := table(t, [32]byte{1, 16: 2})
	system := func(d *Candidate) { d.Table = &loam; evidence("gpt", "PMBR")(d) }
	marked := func(d *Candidate) { d.Marked = true; evidence(volume.Unknown)(d) }
	begun := func(d *Candidate) {
		marked(d)
		evidence("gpt")(d)
		d.Table = &loam
		d.Content.Evidence = append(d.Content.Evidence,
			volume.Evidence{Name: "vfat", Offset: gpt.Alignment + 82})
	}

	windows := func(d *Candidate) {
		evidence("gpt", "ntfs")(d)
		d.Parts = []volume.Part{{Device: d.Device + "1"}}
	}

	partitioned := func(d *Candidate) {
		evidence("gpt", "PMBR")(d)
		d.Table = &gpt.Table{Partitions: []gpt.Partition{{Index: 1, Type: partitions.BasicData}}}
		d.Parts = []volume.Part{{Device: d.Device + "1"}}
	}

	small := func(d *Candidate) { d.Size = 32 * gib }
	used := func(d *Candidate) { d.Uses = []string{"mounted at /"} }
	removable := func(d *Candidate) { d.Removable = true }
	dead := evidence(volume.Unreadable)
	serial := func(s string) volume.Claim { return volume.Claim{Serial: s} }
	any := volume.Claim{MinSize: gib}
	for _, test := range []struct {
		name      string
		disks     []Candidate
		claim     Claim
		want      string
		installed bool
		refusal   string
		without   string // the refusal has not
	}{
		{
			name:  "an empty disk",
			disks: []Candidate{disk("/dev/sda")},
			claim: Claim{Claim: any},
			want:  "/dev/sda",
		},
		{
			name:    "two that match",
			disks:   []Candidate{disk("/dev/sda"), disk("/dev/sdb")},
			claim:   Claim{Claim: any},
			refusal: "more than one empty disk matches",
		},
		{
			name:  "one by serial",
			disks: []Candidate{disk("/dev/sda"), disk("/dev/sdb")},
			claim: Claim{Claim: serial("S-sdb")},
			want:  "/dev/sdb",
		},
		{
			name:    "one with content",
			disks:   []Candidate{disk("/dev/sda", windows)},
			claim:   Claim{Claim: serial("S-sda")},
			refusal: `hint: to overwrite everything on /dev/sda: install: {disk: {serial: "S-sda"}, wipe: "S-sda"}`,
		},
		{
			name:  "one whose content may go",
			disks: []Candidate{disk("/dev/sda", windows), disk("/dev/sdb", windows)},
			claim: Claim{serial("S-sda"), "S-sda"},
			want:  "/dev/sda",
		},
		{
			name:    "one in use may not be wiped",
			disks:   []Candidate{disk("/dev/sda", windows, used)},
			claim:   Claim{serial("S-sda"), "S-sda"},
			refusal: "mounted at /",
		},
		{
			name:    "one that cannot be read may not be wiped",
			disks:   []Candidate{disk("/dev/sda", dead)},
			claim:   Claim{serial("S-sda"), "S-sda"},
			refusal: "cannot be read",
		},
		{
			name:      "a system is there",
			disks:     []Candidate{disk("/dev/sda", system)},
			claim:     Claim{Claim: serial("S-sda")},
			want:      "/dev/sda",
			installed: true,
		},
		{
			name:      "a system is there, and may be wiped",
			disks:     []Candidate{disk("/dev/sda", system)},
			claim:     Claim{serial("S-sda"), "S-sda"},
			want:      "/dev/sda",
			installed: true,
		},
		{
			name:      "a system is there, and another disk is empty",
			disks:     []Candidate{disk("/dev/sda"), disk("/dev/sdb", system)},
			claim:     Claim{Claim: any},
			want:      "/dev/sdb",
			installed: true,
		},
		{
			name:    "a system is on a disk that is not claimed",
			disks:   []Candidate{disk("/dev/sda"), disk("/dev/sdb", system)},
			claim:   Claim{Claim: serial("S-sda")},
			refusal: "/dev/sdb has a system already, and is not claimed",
		},
		{
			name:  "a system is on a USB drive",
			disks: []Candidate{disk("/dev/sda"), disk("/dev/sdb", system, removable)},
			claim: Claim{Claim: any},
			want:  "/dev/sda",
		},
		{
			name:    "two have a system",
			disks:   []Candidate{disk("/dev/sda", system), disk("/dev/sdb", system)},
			claim:   Claim{Claim: any},
			refusal: "/dev/sda and /dev/sdb have a system already",
		},
		{
			name:  "a power cut left the mark",
			disks: []Candidate{disk("/dev/sda", marked)},
			claim: Claim{Claim: any},
			want:  "/dev/sda",
		},
		{
			name:  "a power cut left all but the first sector",
			disks: []Candidate{disk("/dev/sda", begun)},
			claim: Claim{Claim: any},
			want:  "/dev/sda",
		},
		{
			name:  "what was begun with, and an empty disk",
			disks: []Candidate{disk("/dev/sda"), disk("/dev/sdb", begun)},
			claim: Claim{Claim: any},
			want:  "/dev/sdb",
		},
		{
			name:    "a disk with a mark that has been used since",
			disks:   []Candidate{disk("/dev/sda", marked, evidence("LVM2_member"))},
			claim:   Claim{Claim: any},
			refusal: "LVM physical volume",
		},
		{
			name:    "a disk with a mark that another system has partitioned since",
			disks:   []Candidate{disk("/dev/sda", marked, partitioned)},
			claim:   Claim{Claim: any},
			refusal: "no disk that matches is empty",
		},
		{
			name:  "a USB drive that was begun with, and an empty disk",
			disks: []Candidate{disk("/dev/sda"), disk("/dev/sdb", begun, removable)},
			claim: Claim{Claim: any},
			want:  "/dev/sda",
		},
		{
			name:  "a disk that was begun with and is too small now, and an empty one",
			disks: []Candidate{disk("/dev/sda"), disk("/dev/sdb", begun, small)},
			claim: Claim{Claim: volume.Claim{MinSize: 64 * gib}},
			want:  "/dev/sda",
		},
		{
			name:    "the hint names no disk that the claim cannot mean",
			disks:   []Candidate{disk("/dev/sdb", windows, removable)},
			claim:   Claim{Claim: any},
			without: "wipe",
			refusal: "no disk that is free matches",
		},
		{
			name:    "a disk with a table of a system that has been used since",
			disks:   []Candidate{disk("/dev/sda", system, evidence("LVM2_member"))},
			claim:   Claim{Claim: serial("S-sda")},
			refusal: "LVM physical volume",
		},
		{
			name:  "the same, whose content may go",
			disks: []Candidate{disk("/dev/sda", system, evidence("LVM2_member"))},
			claim: Claim{serial("S-sda"), "S-sda"},
			want:  "/dev/sda",
		},
		{
			name:    "what was begun with is in use",
			disks:   []Candidate{disk("/dev/sda", begun, used)},
			claim:   Claim{Claim: serial("S-sda")},
			refusal: "mounted at /",
		},
		{
			name:    "an empty USB drive",
			disks:   []Candidate{disk("/dev/sda", removable)},
			claim:   Claim{Claim: any},
			refusal: "no disk that is free matches",
		},
		{name: "no disk", claim: Claim{Claim: any}, refusal: "no disk that is free matches"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Decide(Facts{Arch: "amd64", Disks: test.disks}, test.claim)
			if test.refusal != "" {
				text := hint.Text(err)
				if err == nil || !strings.Contains(text, test.refusal) {
					t.Errorf("%v; want %q", err, test.refusal)
				}
				if test.without != "" && strings.Contains(text, test.without) {
					t.Errorf("%s; want it without %q", text, test.without)
				}
				return
			}
			if err != nil || got.Disk.Device != test.want || got.Installed != test.installed {
				t.Errorf("%s, installed %v, %v; want %s",
					got.Disk.Device, got.Installed, err, test.want)
			}
		})
	}
}

// image is a disk image with a small system.
func image(t *testing.T) (firmware.Memory, gpt.Table) {
	t.Helper()
	disk := firmware.NewMemory(nil)
	root := bytes.Repeat([]byte("loam"), 1<<16)
	tree := firmware.NewMemory(nil)
	hash, size, err := verity.Build(bytes.NewReader(root), int64(len(root)), tree, verity.Params{})
	if err != nil {
		t.Fatal(err)
	}

	table := table(t, hash)
	hashes := make([]byte, size)
	_, err = tree.ReadAt(hashes, 0)
	slots, slotErr := partitions.Slots(table, "amd64")
	part := table.Partitions[0]
	err = errors.Join(err, slotErr, table.Create(disk),
		esp.Write(io.NewOffsetWriter(disk, part.Start), part.Size, 512, 1,
			[]esp.File{{Path: "EFI/Linux/loam_1.efi", Data: root}}))

	for index, b := range map[int][]byte{slots[0].Root: root, slots[0].Verity: hashes} {
		_, writeErr := disk.WriteAt(b, table.Partition(index).Start)
		err = errors.Join(err, writeErr)
	}
	if err != nil {
		t.Fatal(err)
	}

	return disk, table
}

func identity(t testing.TB) partitions.Identity {
	t.Helper()
	id, err := partitions.NewIdentity(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// target is a disk whose power is cut after so many sectors were written; 0 is
// never.
type target struct {
	firmware.Memory
	size int64
	cut  *int
}

func (d target) WriteAt(p []byte, off int64) (int, error) {
	for at := 0; at < len(p); at += 512 {
		*d.cut--
		if *d.cut == 0 {
			return at, io.ErrClosedPipe
		}
		if _, err := d.Memory.WriteAt(p[at:at+512], off+int64(at)); err != nil {
			return at, err
		}
	}
	return len(p), nil
}

func (d target) Seek(int64, int) (int64, error) { return d.size, nil }
func (target) Close() error                     { return nil }

// open returns the disk, whichever was chosen.
func (d target) open(volume.Disk) (block.Handle, error) { return d, nil }

// ignore is a flash.Progress.
func ignore(string, int64, int64) {}

// seen is the disk as Observe finds it.
func (d target) seen() Candidate {
	return examine(d, volume.Disk{
		Device:     "/dev/vda",
		Size:       d.size,
		SectorSize: 512,
		Serial:     "S1",
		Content:    volume.ReadContent(io.NewSectionReader(d, 0, d.size), d.size),
	})
}

// TestAnInstallationThatIsCutOffStartsOver, wherever that is and whatever was
// on the disk that could be wiped; and it is never refused, or done to a disk
// that has a system.
func TestAnInstallationThatIsCutOffStartsOver(t *testing.T) {
	from, layout := image(t)
	for _, test := range []struct {
		name  string
		claim Claim
		noise bool
	}{
		{"on an empty disk", Claim{Claim: volume.Claim{MinSize: gib}}, false},
		{"on a disk that may be wiped", Claim{volume.Claim{Serial: "S1"}, "S1"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			fresh := func(cut int) target {
				d := target{firmware.NewMemory(nil), layout.DiskSize + gib, &cut}
				if test.noise {
					other := gpt.Table{DiskGUID: layout.DiskGUID, SectorSize: 512, DiskSize: d.size}
					if err := other.Create(d.Memory); err != nil {
						t.Fatal(err)
					}
				}
				return d
			}

			var id partitions.Identity // of the latest try
			try := func(d target) error {
				facts := Facts{Arch: "amd64", Disks: []Candidate{d.seen()}}
				choice, err := Decide(facts, test.claim)
				if err != nil {
					t.Fatal(err)
				}
				if choice.Installed {
					return nil
				}
				id = identity(t)
				system := System{
					Image:    from,
					Size:     layout.DiskSize,
					Identity: id,
					Machine:  []byte("kind: Machine\n"),
				}
				return Write(t.Context(), d.open, choice, test.claim, system, ignore)
			}

			whole := fresh(0)
			if err := try(whole); err != nil {
				t.Fatal(err)
			}
			if d := whole.seen(); !d.HasSystem("amd64") {
				t.Fatalf("installed, and there is no system: %v", d.Content)
			} else if d.Table.DiskGUID != id.Disk || d.Table.Partitions[0].UUID != id.ESP {
				t.Errorf("disk %s, ESP %s: want %+v", d.Table.DiskGUID,
					d.Table.Partitions[0].UUID, id)
			}

			n := -*whole.cut
			for cut := 1; cut <= n; cut += judge.PickOf(4, 1, 1) {
				if cut > 20 && cut < n-30 && cut%(n/8) > 0 {
					continue
				}

				d := fresh(cut)
				if err := try(d); err == nil {
					t.Fatalf("cut at %d of %d: no error", cut, n)
				}

				*d.cut = 0
				if err := try(d); err != nil {
					t.Fatalf("cut at %d of %d: then %v", cut, n, err)
				}
				if !d.seen().HasSystem("amd64") {
					t.Fatalf("cut at %d of %d: no system afterwards", cut, n)
				}
			}
		})
	}
}

// TestADiskIsLookedAtAgain after it was opened exclusively.
func TestADiskIsLookedAtAgain(t *testing.T) {
	from, layout := image(t)
	for _, test := range []struct {
		name   string
		change func(d *target)
		want   string
	}{
		{"it has content now", func(d *target) {
			_, _ = d.Memory.WriteAt([]byte("LABELONE"), 512)
		}, "no longer empty"},
		{"it is another disk", func(d *target) { d.size += 512 }, "the chosen disk"},
		{"it has a system now", func(d *target) {
			_ = layout.Create(d.Memory)
		}, "it has a system now"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := target{firmware.NewMemory(nil), layout.DiskSize + gib, new(int)}
			choice := Choice{Disk: d.seen()}
			test.change(&d)
			before := len(d.Over)

			system := System{Image: from, Size: layout.DiskSize, Identity: identity(t)}
			err := Write(t.Context(), d.open, choice, Claim{}, system, ignore)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q", err, test.want)
			}

			if len(d.Over) != before {
				t.Error("it was written to")
			}
		})
	}

	small := volume.Disk{Device: "/dev/vda", Size: layout.DiskSize - 512, SectorSize: 512}
	if err := Fits(small, layout); err == nil || !strings.Contains(err.Error(), "the image needs") {
		t.Errorf("a disk that is too small: %v", err)
	}

	small.SectorSize = 4096
	if err := Fits(small, layout); err == nil ||
		!strings.Contains(hint.Text(err), "hint: loamctl build --sector-size 4096") {
		t.Errorf("a disk of other sectors: %v", err)
	}
}
