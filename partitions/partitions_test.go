package partitions

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions/gpt"
)

const (
	mib = 1 << 20
	gib = 1 << 30
)

func params() Params {
	p := Params{
		Arch:       "amd64",
		ImageID:    "loam-node-os",
		Version:    "0.1.0",
		SectorSize: 512,
	}
	for i := range p.RootHash {
		p.RootHash[i] = byte(i)
	}
	return p
}

func definitions(t *testing.T) []Definition {
	t.Helper()
	defs, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	return defs
}

func TestPlaceOurDisk(t *testing.T) {
	got, err := Place(definitions(t), params())
	if err != nil {
		t.Fatal(err)
	}

	amd64 := func(role Role) uuid.UUID { return TypeUUID(role, "amd64") }
	verity := uuid.MustParse("10111213-1415-1617-1819-1a1b1c1d1e1f")
	root := uuid.MustParse("00010203-0405-0607-0809-0a0b0c0d0e0f")
	p := got.Partitions
	free := uint64(gpt.ReadOnly | gpt.NoAuto)
	want := gpt.Table{
		DiskGUID:   got.DiskGUID,
		SectorSize: 512,
		DiskSize:   3*gib + (2*17+256+2)*mib,
		Partitions: []gpt.Partition{
			{
				Index: 1,
				Type:  amd64(ESP),
				UUID:  p[0].UUID,
				Label: "esp",
				Start: mib,
				Size:  gib,
			},
			{
				Index:      2,
				Type:       amd64(RootVeritySig),
				UUID:       p[1].UUID,
				Label:      "_empty",
				Start:      gib + mib,
				Size:       mib,
				Attributes: free,
			},
			{
				Index:      3,
				Type:       amd64(RootVerity),
				UUID:       verity,
				Label:      "loam-node-os_0.1.0",
				Start:      gib + 2*mib,
				Size:       16 * mib,
				Attributes: gpt.ReadOnly,
			},
			{
				Index:      4,
				Type:       amd64(Root),
				UUID:       root,
				Label:      "loam-node-os_0.1.0",
				Start:      gib + 18*mib,
				Size:       gib,
				Attributes: gpt.ReadOnly,
			},
			{
				Index:      5,
				Type:       amd64(RootVeritySig),
				UUID:       p[4].UUID,
				Label:      "_empty",
				Start:      2*gib + 18*mib,
				Size:       mib,
				Attributes: free,
			},
			{
				Index:      6,
				Type:       amd64(RootVerity),
				UUID:       p[5].UUID,
				Label:      "_empty",
				Start:      2*gib + 19*mib,
				Size:       16 * mib,
				Attributes: free,
			},
			{
				Index:      7,
				Type:       amd64(Root),
				UUID:       p[6].UUID,
				Label:      "_empty",
				Start:      2*gib + 35*mib,
				Size:       gib,
				Attributes: free,
			},
			{
				Index:      8,
				Type:       amd64(State),
				UUID:       p[7].UUID,
				Label:      StateLabel,
				Start:      3*gib + 35*mib,
				Size:       256 * mib,
				Attributes: gpt.GrowFS,
			},
		},
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}

	for _, u := range []uuid.UUID{
		got.DiskGUID, p[0].UUID, p[1].UUID, p[4].UUID, p[5].UUID, p[6].UUID, p[7].UUID,
	} {
		if u.Version() != 8 || u.Variant() != uuid.RFC4122 {
			t.Errorf("UUID %s: version %d, variant %s", u, u.Version(), u.Variant())
		}
	}
}

func TestTheSignatureOfASignedImageHasItsPlace(t *testing.T) {
	p := params()
	got, err := Place(definitions(t), p)
	if err != nil {
		t.Fatal(err)
	}

	slots, err := Slots(got, p.Arch)
	if err != nil {
		t.Fatal(err)
	}

	signed := slots[0].Seal(got, p.Arch, p.RootHash, p.Label(), true)
	for i, have := range got.Partitions {
		if i != 1 && signed.Partitions[i] != have {
			t.Errorf("partition %d becomes %+v", i+1, signed.Partitions[i])
		}
	}

	sig := signed.Partitions[1]
	if sig.Label != p.Label() || sig.Attributes != gpt.ReadOnly || sig.UUID != SigUUID(p.RootHash) {
		t.Errorf("%+v", sig)
	}
}

func TestPlaceDependsOnRootHashAlone(t *testing.T) {
	a, errA := Place(definitions(t), params())
	b, errB := Place(definitions(t), params())
	other := params()
	other.RootHash[31]++

	c, errC := Place(definitions(t), other)
	if errA != nil || errB != nil || errC != nil {
		t.Fatal(errA, errB, errC)
	}

	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("same inputs, different tables:\n%s", diff)
	}
	if a.DiskGUID == c.DiskGUID || a.Partitions[7].UUID == c.Partitions[7].UUID {
		t.Error("another root hash, same UUIDs")
	}
}

func TestPlaceGivesTheRestToTheState(t *testing.T) {
	for _, sectorSize := range []int{512, 4096} {
		p := params()
		p.SectorSize = sectorSize
		p.DiskSize = 8 * gib

		got, err := Place(definitions(t), p)
		if err != nil {
			t.Fatal(err)
		}
		if end := got.Partitions[7].End(); end != 8*gib-mib || got.DiskSize != 8*gib {
			t.Errorf("state ends at %d of %d", end, got.DiskSize)
		}
		if _, changed := got.Grow(8 * gib); changed {
			t.Error("a new disk has something to grow")
		}
	}
}

func TestPlaceRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Params)
		err    string
	}{
		{"unknown architecture", func(p *Params) {
			p.Arch = "riscv64"
		}, "place 10-esp.conf: type esp on architecture"},
		{"disk too small", func(p *Params) { p.DiskSize = 2 * gib }, "want 3527409664 or more"},
		{"no version", func(p *Params) { p.Version = "" }, `version "" is empty`},
		{"label too long", func(p *Params) {
			p.Version = strings.Repeat("9", 24)
		}, "37 UTF-16 units"},
		{"sector size", func(p *Params) { p.SectorSize = 520 }, "sector size 520"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := params()
			tc.change(&p)
			_, err := Place(definitions(t), p)
			if err == nil ||
				!strings.Contains(hint.Text(err), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

func TestParse(t *testing.T) {
	const head = "[Partition]\nType=root\nLabel=x\nSizeMinBytes=1G\n"
	for _, tc := range []struct {
		name, text, err string
	}{
		{"least", head, ""},
		{"comments, spaces and empty lines", "# a\n; b\n\n [Partition]\n Type = root \nLabel=x\n" +
			"SizeMinBytes=1048576K", ""},
		{"unknown key", head + "Weight=1\n", "x.conf:5: unknown key Weight\nhint: known are Type"},
		{"key twice", head + "Label=y\n", "x.conf:5: Label: given twice"},
		{"unknown type", "[Partition]\nType=home\n", "x.conf:2: Type=home: unknown type\nhint: "},
		{"unknown section", "[Disk]\n", "x.conf:1: section [Disk]\nhint: "},
		{"before the section", "Type=root\n", `x.conf:1: "Type=root" before a section`},
		{"no assignment", "[Partition]\nType\n", `x.conf:2: "Type": no '='`},
		{"no type", "[Partition]\nLabel=x\n", "x.conf: no Type="},
		{"range of sizes", head + "SizeMaxBytes=2G\n", "is not SizeMinBytes=1073741824\nhint: "},
		{"half a MiB", "[Partition]\nSizeMinBytes=512K\n", "want whole MiB"},
		{"size that overflows", "[Partition]\nSizeMinBytes=9999999999T\n", "want whole MiB"},
		{"two units", "[Partition]\nSizeMinBytes=1KM\n", "unit KM"},
		{"no number", "[Partition]\nSizeMinBytes=\n", "invalid syntax"},
		{"no boolean", head + "ReadOnly=perhaps\n", "x.conf:5: ReadOnly=perhaps: want yes or no"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := Parse("x.conf", []byte(tc.text))
			if tc.err != "" {
				if err == nil || !strings.Contains(hint.Text(err), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}

			want := Definition{
				File:    "x.conf",
				Role:    Root,
				Label:   "x",
				SizeMin: gib,
			}
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("error %v\n%s", err, diff)
			}
		})
	}
}
