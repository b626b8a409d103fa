package volume

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// made is a generated disk: the facts that Observe would read, except for the
// content, and the truth.
type made struct {
	disk                      Disk
	bytes                     *inMemory
	kind                      string
	empty, volume, unfinished bool
	unreadable, twin          bool
}

// scenario is a machine with a claim for a purpose, and maybe with the claim of the
// other one.
type scenario struct {
	disks   []made
	purpose *Purpose
	had     bool // a volume, once
	claim   Claim
	rival   Claim
}

// maker makes scenarios from a seed.
type maker struct {
	*rand.Rand
	facts []fact
	count int
}

func (m *maker) chance(percent int) bool { return m.IntN(100) < percent }

func pick[T any](m *maker, of ...T) T { return of[m.IntN(len(of))] }

func (m *maker) scenario() scenario {
	w := scenario{purpose: pick(m, Data, Etcd)}
	base := pick(m, 2*gib, 50*gib, 100*gib, 500107862016, 1000204886016, 300*gib)
	for i := range 1 + m.IntN(7) {
		w.disks = append(w.disks, m.disk(i, base, w.purpose))
	}

	first := &w.disks[0]
	if m.chance(25) && first.disk.WWID != "" { // another path to the same disk
		other := *first
		other.disk.Device = "/dev/sdz"
		other.disk.Paths = []string{"pci-0000:99:00.0"}
		first.twin = true
		other.twin = true
		w.disks = append(w.disks, other)
	}

	w.had = m.chance(20)
	w.claim = m.claim(pick(m, w.disks...).disk, base)
	if first.twin && m.chance(50) {
		w.claim = Claim{Path: first.disk.Paths[0]}
	}
	if m.chance(50) {
		w.rival = m.claim(pick(m, w.disks...).disk, base)
	}
	return w
}

func (m *maker) disk(i int, base int64, purpose *Purpose) made {
	m.count++
	sector := pick(m, 512, 4096)
	size := base
	switch m.IntN(4) {
	case 0: // off by a few MiB, or sectors
		size += int64(m.IntN(41)-20)*mib + int64(m.IntN(3))*4096
	case 1:
		size = pick(m, 2*gib, 20*gib, 100*gib, 2000398934016, 7*gib+4096)
	}

	size -= size % int64(sector)
	d := made{
		bytes: newSparse(size),
		disk: Disk{
			Device:     fmt.Sprintf("/dev/sd%c", 'a'+i),
			Size:       size,
			SectorSize: sector,
			Serial:     fmt.Sprintf("S%07d", m.count),
			Model:      pick(m, "FAST", "SLOW"),
			WWID:       fmt.Sprintf("naa.%d", m.count),
			Paths:      []string{fmt.Sprintf("pci-0000:%02d:00.0", i)},
			Removable:  m.chance(7),
			ReadOnly:   m.chance(4),
			Network:    pick(m, "", "", "", "", "", "", "", "", "", "iSCSI"),
		},
	}

	switch m.IntN(10) {
	case 0:
		d.disk.Serial, d.disk.WWID = "", ""
	case 1:
		d.disk.Serial = "0123456789" // what cheap bridges say
	case 2:
		d.disk.WWID = "eui.0000000001000000" // what cheap drives say
	}

	if m.chance(12) {
		d.disk.Uses = []string{pick(m, "mounted at /var", "held by dm-0", "swap area",
			ErrBusy.Error())}
	}

	m.fill(&d, purpose)
	d.unreadable = m.chance(4) && !d.volume
	if d.unreadable { // What is left of a volume may be enough to use it.
		d.bytes.broken = pick(m, m.Int64N(mib/512), size/512-1-m.Int64N(mib/512))
		d.empty = false
		d.unfinished = false
	}

	return d
}

// fill writes the content of a disk. A volume of another purpose is one that must not
// be taken.
func (m *maker) fill(d *made, purpose *Purpose) {
	on := pick(m, Data, Etcd)
	own := on == purpose
	size := d.disk.Size
	sector := int64(d.disk.SectorSize)
	between := func() int64 { return edge + m.Int64N(size-2*edge-8192) }
	switch n := m.IntN(100); {
	case n < 30:
		d.kind = "zeros"
		d.empty = true
	case n < 45: // what a disk held before its ends were emptied
		d.kind = "old data between the ends"
		d.empty = true
		for range 1 + m.IntN(6) {
			d.bytes.write(between(), noise(m.Rand, 1+m.IntN(4096)))
		}
	case n < 70:
		f := pick(m, m.facts...)
		d.kind = "signature " + f.name
		if !f.put(d.bytes) { // too small for this copy
			d.kind = "zeros"
			d.empty = true
		}
	case n < 80:
		d.kind = "partial table"
		entry := append(noise(m.Rand, 32),
			"\x00\x08\x00\x00\x00\x00\x00\x00\xff\xff\x0f\x00\x00\x00\x00\x00"...)

		switch m.IntN(6) {
		case 0:
			d.bytes.write(sector, []byte("EFI PART"))
		case 1:
			d.bytes.write(size-sector, []byte("EFI PART"))
		case 2: // the array of a table whose headers are gone
			d.bytes.write(2*sector, entry)
		case 3:
			d.bytes.write(size-sector-16384, entry)
		case 4: // one entry of an MBR without its signature
			d.bytes.write(446+16*m.Int64N(4), []byte{0, 0, 2, 0, 0x83, 0xff, 0xff, 0xff, 0, 8})
		case 5:
			d.bytes.write(510, []byte{0x55, 0xaa})
		}
	case n < 90:
		d.kind = "noise"
		at := pick(m, 0, edge-1, size-edge, size-1, m.Int64N(edge), size-1-m.Int64N(edge))
		d.bytes.write(at, noise(m.Rand, 1+m.IntN(600)))
	case n < 95:
		d.kind = on.Name
		d.volume = own
		if m.chance(50) {
			d.bytes.write(0, []byte("XFSB"))
			d.bytes.write(0x6c, []byte(on.Label))
		} else {
			d.bytes.write(1024+0x38, []byte("\x53\xef"))
			d.bytes.write(1024+4, []byte{1})
			d.bytes.write(1024+0x60, []byte{0x40})
			d.bytes.write(1024+0x78, []byte(on.Label))
		}
		for range m.IntN(5) { // files
			d.bytes.write(between(), noise(m.Rand, 4096))
		}
	default:
		d.kind = "unfinished " + on.Name
		d.unfinished = own
		d.bytes.write(0, []byte(on.Mark))
		if m.chance(50) {
			d.bytes.write(128*kib, noise(m.Rand, 4096))
		}
	}
}

func (m *maker) claim(d Disk, base int64) Claim {
	switch m.IntN(8) {
	case 0, 1:
		return OfSize(base)
	case 2:
		return Claim{MinSize: d.Size - m.Int64N(30*mib), MaxSize: d.Size + m.Int64N(30*mib)}
	case 3:
		return Claim{MinSize: d.Size - m.Int64N(gib), OnlyEmpty: true}
	case 4:
		return Claim{Serial: pick(m, d.Serial, "0123456789"), Path: d.Paths[0]}
	case 5:
		return Claim{Path: d.Paths[0]}
	case 6:
		return Claim{Model: d.Model, OnlyEmpty: m.chance(50), MaxSize: pick(m, 0, d.Size)}
	}
	return Claim{OnlyEmpty: true}
}

// expected is what an expert who knows the truth would do: which disk, and what
// with it; "" for nothing.
func (w scenario) expected() (Action, string) {
	c := w.claim
	var wholes, unfinished, contenders, eligible []made
	named := c.Serial != "" || c.Path != ""
	for _, d := range w.disks {
		if d.disk.Removable && !named {
			continue
		}

		if d.volume {
			wholes = append(wholes, d)
		}
		if d.disk.Network != "" && !named {
			continue
		}
		if d.unfinished {
			unfinished = append(unfinished, d)
		}

		about := d.disk.Size >= c.MinSize && (c.MaxSize == 0 || d.disk.Size <= c.MaxSize)
		if about && w.identified(d) && len(d.disk.Uses) == 0 {
			contenders = append(contenders, d)
		}
	}

	for _, found := range []struct {
		action Action
		disks  []made
	}{{ToUse, wholes}, {ToFinish, unfinished}} {
		if len(found.disks) == 0 {
			continue
		}
		found.disks = slices.DeleteFunc(found.disks, func(d made) bool { return !w.identified(d) })
		if len(found.disks) != 1 || (found.action == ToFinish &&
			(len(found.disks[0].disk.Uses) > 0 || found.disks[0].disk.ReadOnly)) {
			return "", ""
		}
		return found.action, found.disks[0].disk.Device
	}

	if w.had && ((c.Serial == "" && c.Path == "") || w.purpose == Etcd) {
		return "", ""
	}

	exact := slices.DeleteFunc(slices.Clone(contenders), func(d made) bool {
		return d.disk.Size != c.About
	})
	if len(exact) > 0 {
		contenders = exact
	}

	for _, d := range contenders {
		if d.unreadable {
			return "", ""
		}
		if d.empty && !d.twin && !d.disk.ReadOnly {
			eligible = append(eligible, d)
		}
	}

	if len(eligible) != 1 || (len(contenders) > 1 && !c.OnlyEmpty) {
		return "", ""
	}

	if w.contested(eligible[0]) {
		return "", ""
	}
	return ToFormat, eligible[0].disk.Device
}

// contested reports whether the other claim could mean the disk.
func (w scenario) contested(d made) bool {
	c := w.rival
	about := d.disk.Size >= c.MinSize && (c.MaxSize == 0 || d.disk.Size <= c.MaxSize)
	return c != Claim{} && about && scenario{claim: c}.identified(d) &&
		((!d.disk.Removable && d.disk.Network == "") || c.Serial != "" || c.Path != "")
}

func (w scenario) identified(d made) bool {
	c := w.claim
	return (c.Serial == "" || d.disk.Serial == c.Serial) &&
		(c.Path == "" || d.disk.Paths[0] == c.Path) && (c.Model == "" || d.disk.Model == c.Model)
}
