package boot

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

const (
	gib  = 1 << 30
	mib  = 1 << 20
	hash = "00112233445566778899aabbccddeeff102132435465768798a9bacbdcedfe0f"
)

var rootHashBytes = func() (h [32]byte) {
	h, _ = rootHash("roothash=" + hash)
	return h
}()

// machine is one disk as the builder lays it out, with slot A filled.
func machine() Facts {
	role := func(r partitions.Role) uuid.UUID { return partitions.TypeUUID(r, "amd64") }
	id := func(n byte) uuid.UUID { return uuid.UUID{15: n} }
	table := gpt.Table{
		SectorSize: 512,
		DiskSize:   4 * gib,
		Partitions: []gpt.Partition{
			{
				Index: 1,
				Type:  role(partitions.ESP),
				UUID:  id(1),
				Start: mib,
				Size:  gib,
			},
			{
				Index: 2,
				Type:  role(partitions.RootVerity),
				UUID:  partitions.VerityUUID(rootHashBytes),
				Start: mib + gib,
				Size:  16 * mib,
			},
			{
				Index: 3,
				Type:  role(partitions.Root),
				UUID:  partitions.RootUUID(rootHashBytes),
				Start: 17*mib + gib,
				Size:  gib,
			},
			{
				Index: 4,
				Type:  role(partitions.RootVerity),
				UUID:  id(4),
				Start: 17*mib + 2*gib,
				Size:  16 * mib,
			},
			{
				Index: 5,
				Type:  role(partitions.Root),
				UUID:  id(5),
				Start: 33*mib + 2*gib,
				Size:  gib / 2,
			},
			{
				Index: 6,
				Type:  role(partitions.State),
				UUID:  id(6),
				Start: 33*mib + 3*gib,
				Size:  256 * mib,
			},
		},
	}

	return Facts{
		Arch:    "amd64",
		Cmdline: "quiet roothash=" + hash,
		Disks: []Disk{{
			Device:     "/dev/vda",
			Size:       4 * gib,
			SectorSize: 512,
			Table:      &table,
			Contents: map[int]Content{
				1: {Device: "/dev/vda1"}, 3: {Device: "/dev/vda3"}, 4: {Device: "/dev/vda4"},
				5: {Device: "/dev/vda5"},
				2: {Device: "/dev/vda2", Verity: &verity.Superblock{DataBlocks: 25600}},
				6: {Device: "/dev/vda6", Filesystem: FilesystemExt4, FilesystemSize: 256 * mib},
			},
		}},
	}
}

// with changes one content of the first disk.
func with(f Facts, index int, change func(*Content)) Facts {
	c := f.Disks[0].Contents[index]
	change(&c)
	f.Disks[0].Contents[index] = c
	return f
}

// own is what a disk gets that has no identity.
var own = partitions.Identity{
	Disk:  uuid.UUID{6: 0x40, 15: 21},
	ESP:   uuid.UUID{6: 0x40, 15: 22},
	State: uuid.UUID{6: 0x40, 15: 23},
}

// image gives the first disk the public UUIDs of an image.
func image(f Facts) Facts {
	table := partitions.Identity{
		Disk:  uuid.UUID{6: 0x80, 15: 11},
		ESP:   uuid.UUID{6: 0x80, 15: 12},
		State: uuid.UUID{6: 0x80, 15: 13},
	}.Give(*f.Disks[0].Table)
	f.Disks[0].Table = &table
	f.Identity = own

	return f
}

// twin adds a copy of the first disk, before it.
func twin(f Facts, name string) Facts {
	d := f.Disks[0]
	old := d.Device
	d.Device = name

	d.Contents = map[int]Content{}
	for i, c := range f.Disks[0].Contents {
		c.Device = name + strings.TrimPrefix(c.Device, old)
		d.Contents[i] = c
	}

	f.Disks = append([]Disk{d}, f.Disks...)
	return f
}

// damagedOnly returns a check that nothing is done to the state partition.
func damagedOnly(want Damage) func(Decision) string {
	return func(d Decision) string {
		return cmp.Diff(State{
			Device: "/dev/vda6",
			Index:  6,
			Start:  d.State.Start,
			Size:   256 * mib,
			Damage: &want,
		}, d.State)
	}
}

func TestDecide(t *testing.T) {
	full := machine()
	full.Disks[0].Table.DiskSize = full.Disks[0].Size
	tests := []struct {
		name    string
		facts   Facts
		check   func(Decision) string
		wantErr string
		notYet  bool
	}{
		{
			name:  "slot A is found by root hash",
			facts: machine(),
			check: func(d Decision) string {
				return cmp.Diff([]string{"a", "/dev/vda3", "/dev/vda2", "/dev/vda1", "/dev/vda6"},
					[]string{d.Slot, d.Root, d.Verity, d.ESP, d.State.Device})
			},
		},
		{
			name:  "corruption restarts the machine",
			facts: machine(),
			check: func(d Decision) string {
				if !strings.HasSuffix(d.Target, " 1 restart_on_corruption") ||
					d.TargetLength != 25600*8 {
					return d.Target
				}
				return ""
			},
		},
		{
			name: "the second root partition is slot B",
			facts: func() Facts {
				f := machine()
				p := f.Disks[0].Table.Partitions
				p[1].UUID, p[3].UUID = p[3].UUID, p[1].UUID
				p[2].UUID, p[4].UUID = p[4].UUID, p[2].UUID
				f.Disks[0].Contents[4] = Content{
					Device: "/dev/vda4",
					Verity: f.Disks[0].Contents[2].Verity,
				}
				return f
			}(),
			check: func(d Decision) string { return cmp.Diff("b/dev/vda5", d.Slot+d.Root) },
		},
		{
			name: "a formatted state partition of the right size is left alone",
			facts: func() Facts {
				f := machine()
				grown, _ := f.Disks[0].Table.Grow(f.Disks[0].Size)
				f.Disks[0].Table = &grown
				return with(f, 6, func(c *Content) { c.FilesystemSize = grown.Partition(6).Size })
			}(),
			check: func(d Decision) string {
				return cmp.Diff(State{
					Device: "/dev/vda6",
					Index:  6,
					Start:  d.State.Start,
					Size:   d.State.Size,
				}, d.State)
			},
		},
		{
			name:  "a state partition with a corrupt superblock is repaired, not formatted",
			facts: with(machine(), 6, func(c *Content) { c.Filesystem = FilesystemCorrupt }),
			check: func(d Decision) string {
				return cmp.Diff([]bool{true, false}, []bool{d.State.Repair, d.State.Format})
			},
		},
		{
			name:  "an empty state partition is formatted and grown",
			facts: with(machine(), 6, func(c *Content) { c.Filesystem = FilesystemEmpty }),
			check: func(d Decision) string {
				return cmp.Diff([]bool{true, true}, []bool{d.State.Format, d.State.Grow})
			},
		},
		{
			name: "a disk that has grown gives its space to the state partition",
			facts: func() Facts {
				f := machine()
				f.Disks[0].Size = 16 * gib
				return f
			}(),
			check: func(d Decision) string {
				if d.State.Table == nil || d.State.Size < 12*gib || !d.State.Grow ||
					d.State.Format {
					return "not grown"
				}
				return ""
			},
		},
		{
			name: "a damaged copy of the table is repaired, and told",
			facts: func() Facts {
				f := machine()
				grown, _ := f.Disks[0].Table.Grow(f.Disks[0].Size)
				f.Disks[0].Table = &grown
				f.Disks[0].Damage = "backup copy: wrong checksum"
				return f
			}(),
			check: func(d Decision) string {
				if d.State.Table == nil {
					return "not repaired"
				}
				return cmp.Diff("backup copy: wrong checksum", d.State.TableDamage)
			},
		},
		{
			name: "on a disk that cannot be written, it is only told",
			facts: func() Facts {
				f := machine()
				f.Disks[0].Damage = "backup copy: wrong checksum"
				f.Disks[0].ReadOnly = true
				return f
			}(),
			check: func(d Decision) string {
				return cmp.Diff([]string{"partition table of /dev/vda: backup copy: wrong checksum"},
					d.Warnings)
			},
		},
		{
			name: "a system on a USB drive says that it may not be the right one",
			facts: func() Facts {
				f := twin(machine(), "/dev/sda")
				f.Disks = f.Disks[:1]
				f.Disks[0].Removable = true
				return f
			}(),
			check: func(d Decision) string {
				return cmp.Diff("/dev/sda3 true", fmt.Sprint(d.Root, " ", d.Unsure))
			},
		},
		{
			name: "the first boot gives the disk its own identity",
			facts: with(image(machine()), 6,
				func(c *Content) { c.Filesystem = FilesystemEmpty }),
			check: func(d Decision) string {
				want, _ := image(machine()).Disks[0].Table.Grow(4 * gib)
				want.DiskGUID = own.Disk
				want.Partitions[0].UUID = own.ESP
				want.Partitions[5].UUID = own.State
				return cmp.Diff(&want, d.State.Table) + cmp.Diff(own.ESP, d.State.ESP)
			},
		},
		{
			name:  "the first boot of a disk that was flashed keeps its identity",
			facts: with(machine(), 6, func(c *Content) { c.Filesystem = FilesystemEmpty }),
			check: func(d Decision) string {
				want, _ := machine().Disks[0].Table.Grow(4 * gib)
				return cmp.Diff(&want, d.State.Table) +
					cmp.Diff(want.Partitions[0].UUID, d.State.ESP)
			},
		},
		{
			name:  "a disk of an early version gets an identity, and keeps its state",
			facts: image(machine()),
			check: func(d Decision) string {
				want, _ := image(machine()).Disks[0].Table.Grow(4 * gib)
				want = own.Give(want)
				return cmp.Diff(&want, d.State.Table) +
					cmp.Diff([]uuid.UUID{own.ESP, {6: 0x80, 15: 12}},
						[]uuid.UUID{d.State.ESP, d.State.OldESP}) +
					cmp.Diff(false, d.State.Format)
			},
		},
		{
			name: "not while its system is on trial",
			facts: func() Facts {
				f := image(machine())
				f.Counted = true
				return f
			}(),
			check: func(d Decision) string {
				return cmp.Diff(image(machine()).Disks[0].Table.DiskGUID, d.State.Table.DiskGUID) +
					cmp.Diff(uuid.Nil, d.State.ESP)
			},
		},
		{
			name:  "nor if its state is damaged",
			facts: with(image(machine()), 6, func(c *Content) { c.Errors = true }),
			check: func(d Decision) string {
				if d.State.Table != nil || d.State.Damage == nil {
					return "the table is written"
				}
				return ""
			},
		},
		{
			name:  "a disk with an identity keeps it",
			facts: machine(),
			check: func(d Decision) string {
				return cmp.Diff(machine().Disks[0].Table.DiskGUID, d.State.Table.DiskGUID) +
					cmp.Diff(uuid.Nil, d.State.ESP)
			},
		},
		{
			name:    "no root hash on the command line",
			facts:   Facts{Cmdline: "quiet"},
			wantErr: "no roothash=",
		},
		{
			name:    "a root hash cut short",
			facts:   Facts{Cmdline: "roothash=00ff"},
			wantErr: "not 64 hexadecimal digits",
		},
		{
			name:    "no disk yet",
			facts:   Facts{Cmdline: "roothash=" + hash},
			wantErr: "no disk at all",
			notYet:  true,
		},
		{
			name: "a disk with another system",
			facts: func() Facts {
				f := machine()
				f.Cmdline = "roothash=" + strings.Repeat("ab", 32)
				return f
			}(),
			wantErr: "/dev/vda: 6 partitions",
			notYet:  true,
		},
		{
			name:    "the kernel has not made the partitions yet",
			facts:   with(machine(), 3, func(c *Content) { c.Device = "" }),
			wantErr: "no disk has",
			notYet:  true,
		},
		{
			name: "a verity partition without a superblock",
			facts: with(machine(), 2, func(c *Content) {
				c.Verity = nil
				c.Problem = "wrong magic"
			}),
			wantErr: "/dev/vda2: wrong magic",
		},
		{
			name: "a verity tree for more than the root partition",
			facts: with(machine(), 2, func(c *Content) {
				c.Verity = &verity.Superblock{DataBlocks: 1 << 30}
			}),
			wantErr: "its verity tree covers",
		},
		{
			name:  "foreign data on the state partition is neither formatted nor repaired",
			facts: with(machine(), 6, func(c *Content) { c.Filesystem = FilesystemOther }),
			check: damagedOnly(Damage{Reason: "holds unknown data (unknown content)"}),
		},
		{
			name:  "a file system with the error flag is not mounted",
			facts: with(machine(), 6, func(c *Content) { c.Errors = true }),
			check: damagedOnly(Damage{
				Reason: "its file system has errors that are not repaired",
				Ext4:   true,
			}),
		},
		{
			name:  "nor is one without a journal, which only e2fsck can have removed",
			facts: with(machine(), 6, func(c *Content) { c.NoJournal = true }),
			check: damagedOnly(Damage{
				Reason: "its file system has lost its journal",
				Ext4:   true,
			}),
		},
		{
			name: "nor is it if a power cut has corrupted its superblock, too",
			facts: with(machine(), 6, func(c *Content) {
				c.Filesystem = FilesystemCorrupt
				c.Errors = true
			}),
			check: damagedOnly(Damage{
				Reason: "its file system has errors that are not repaired",
				Ext4:   true,
			}),
		},
		{
			name: "a file system without a superblock is not mounted",
			facts: with(machine(), 6, func(c *Content) {
				c.Filesystem = FilesystemDamaged
				c.Problem = "no ext4 superblock"
			}),
			check: damagedOnly(Damage{Reason: "no ext4 superblock", Ext4: true}),
		},
		{
			name: "no state partition",
			facts: func() Facts {
				f := machine()
				f.Disks[0].Table.Partitions = f.Disks[0].Table.Partitions[:5]
				return f
			}(),
			check: func(d Decision) string {
				want := &Damage{Reason: "no state partition (type var)"}
				return cmp.Diff(State{Damage: want}, d.State)
			},
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := Decide(tt.facts)
			if tt.wantErr == "" {
				if err != nil {
					t.Fatal(err)
				}
				if diff := tt.check(d); diff != "" {
					t.Error(diff)
				}
				return
			}

			if err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("error %v, want one with %q", err, tt.wantErr)
			}
			if errors.Is(err, ErrNotThere) != tt.notYet {
				t.Errorf("may be cured by waiting: %v, want %v", !tt.notYet, tt.notYet)
			}
		})
	}
}

func TestOnlyPID1OnARamfsMayAct(t *testing.T) {
	const ext4, ramfs, tmpfs = 0xef53, 0x858458f6, 0x01021994
	for _, tt := range []struct {
		pid int
		fs  int64
		may bool
	}{
		{1, ramfs, true},
		{1, tmpfs, true},
		{1, ext4, false},
		{2, ramfs, false},
		{4711, ext4, false},
	} {
		if err := mayAct(tt.pid, tt.fs); (err == nil) != tt.may {
			t.Errorf("PID %d on %#x: %v", tt.pid, tt.fs, err)
		}
	}

	if _, err := BecomeInit(NewConsole(t.TempDir(), "")); !errors.Is(err, ErrNotInit) {
		t.Errorf("a test became init: %v", err)
	}
}

func TestMachineID(t *testing.T) {
	for id, valid := range map[string]bool{
		"0123456789abcdef0123456789abcdef":  true,
		"00000000000000000000000000000000":  false,
		"0123456789ABCDEF0123456789abcdef":  false,
		"uninitialized":                     false,
		"":                                  false,
		"0123456789abcdef0123456789abcdef0": false,
	} {
		if validMachineID(id) != valid {
			t.Errorf("%q: want valid %v", id, valid)
		}
	}
}
