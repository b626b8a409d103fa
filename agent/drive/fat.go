package drive

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/bits"
)

// fat reads the boot sector, the root directory and its chain (Microsoft's "FAT:
// General Overview of On-Disk Format" 1.03). A label in the root directory goes
// before the label in the boot sector, because systems that rename a volume
// change only the former.
func fat(r io.ReaderAt) (FileSystem, error) {
	boot, err := at(r, 0, 512)
	if err != nil || len(boot) < 512 {
		return FileSystem{}, err
	}
	v, ok := readVolume(boot)
	if !ok {
		return FileSystem{}, nil
	}

	label, err := v.rootLabel(r)
	if label == nil {
		label = v.label
	}
	return FileSystem{"vfat", text(label)}, err
}

// volume is what a boot sector says of a FAT. Sizes and offsets are in bytes.
type volume struct {
	// table is where the first FAT is, data where its clusters begin: number 2
	// is the first of them.
	table, data int64
	cluster     int64
	// entries are in how many clusters the FAT has an entry.
	entries int64

	// root and rootSize are of the root directory of FAT12 and FAT16.
	// rootCluster is the first cluster of FAT32's, 0 otherwise.
	root, rootSize int64
	rootCluster    int64

	// label is the label in the boot sector, nil if none.
	label []byte
}

// The places of fields in a boot sector.
const (
	typeOfFAT16 = 54
	typeOfFAT32 = 82
)

// typeTexts are what formatters write as the type. It means nothing, as it is
// "only informational": some write none.
var typeTexts = []struct {
	at   int
	text string
}{
	{typeOfFAT16, "MSDOS"},
	{typeOfFAT16, "FAT12   "},
	{typeOfFAT16, "FAT16   "},
	{typeOfFAT16, "FAT     "},
	{typeOfFAT32, "MSWIN"},
	{typeOfFAT32, "FAT32   "},
}

// hasType reports whether a boot sector has a text for the type of a FAT.
func hasType(boot []byte) bool {
	for _, t := range typeTexts {
		if bytes.HasPrefix(boot[t.at:], []byte(t.text)) {
			return true
		}
	}
	return false
}

// isLikeFAT reports whether a boot sector without a type may be of a FAT. OS/2
// writes such a sector in front of its own file systems, too.
func isLikeFAT(boot []byte) bool {
	other := bytes.HasPrefix(boot[typeOfFAT16:], []byte("JFS     ")) ||
		bytes.HasPrefix(boot[typeOfFAT16:], []byte("HPFS    "))
	return boot[510] == 0x55 && boot[511] == 0xaa && !other
}

// readVolume decodes a boot sector; false if it is none of a FAT. Its checks are
// those that the kernel and libblkid have in common.
func readVolume(boot []byte) (volume, bool) {
	number16 := func(off int) int64 { return int64(binary.LittleEndian.Uint16(boot[off:])) }
	number32 := func(off int) int64 { return int64(binary.LittleEndian.Uint32(boot[off:])) }
	sector := number16(11)
	perCluster := int64(boot[13])
	reserved := number16(14)
	fats := int64(boot[16])
	rootEntries := number16(17)
	sectors := number16(19)
	media := boot[21]
	perFAT := number16(22)
	isFAT32 := perFAT == 0

	if sectors == 0 {
		sectors = number32(32)
	}
	extended := 38
	if isFAT32 {
		perFAT = number32(36)
		extended = 66
	}

	isPower := func(n int64) bool { return bits.OnesCount64(uint64(n)) == 1 }
	switch {
	case !hasType(boot) && !isLikeFAT(boot),
		!isPower(sector) || sector < 512 || sector > 4096,
		!isPower(perCluster),
		reserved == 0 || fats == 0 || perFAT == 0,
		media != 0xf0 && media < 0xf8:
		return volume{}, false
	}

	const slot = 32
	v := volume{
		table:    reserved * sector,
		cluster:  perCluster * sector,
		root:     (reserved + fats*perFAT) * sector,
		rootSize: rootEntries * slot,
	}
	v.data = v.root + (v.rootSize+sector-1)/sector*sector
	clusters := (sectors - v.data/sector) / perCluster
	most := int64(0xfff4) // FAT16
	if isFAT32 {
		most = 0x0ffffff6
		v.rootCluster = number32(44)
		v.entries = perFAT * sector / 4
	}
	if v.data/sector > sectors || clusters > most {
		return volume{}, false
	}

	// With this signature, there is a label, and a text for none.
	const none = "NO NAME    "
	label := boot[extended+5 : extended+16]
	if boot[extended] == 0x29 && string(label) != none {
		v.label = label
	}
	return v, true
}

// mostDirectory is how large a directory can be: 65,536 entries. It also ends a
// chain with a loop.
const mostDirectory = 65536 * 32

// rootLabel returns the label in the root directory, nil if it has none.
func (v volume) rootLabel(r io.ReaderAt) ([]byte, error) {
	if v.rootCluster == 0 {
		directory, err := at(r, v.root, int(v.rootSize))
		label, _ := volumeLabel(directory)
		return label, err
	}

	next := v.rootCluster
	for read := int64(0); read < mostDirectory && next >= 2 && next < v.entries; read += v.cluster {
		part, err := at(r, v.data+(next-2)*v.cluster, int(v.cluster))
		label, ends := volumeLabel(part)
		if label != nil || ends || err != nil {
			return label, err
		}

		entry, err := at(r, v.table+4*next, 4)
		if err != nil || len(entry) < 4 {
			return nil, err
		}
		next = int64(binary.LittleEndian.Uint32(entry) & 0x0fffffff)
	}
	return nil, nil
}

// volumeLabel finds the entry with the label: it is neither a directory nor part
// of a long name, and has no cluster. A first byte of 0 ends the directory, 0xe5
// marks a removed entry, and 0x05 stands for 0xe5.
func volumeLabel(directory []byte) (label []byte, ends bool) {
	const (
		slot          = 32
		attribute     = 11
		clusterHigh   = 20
		clusterLow    = 26
		volumeID      = 0x08
		subdirectory  = 0x10
		longName      = 0x0f
		attributeMask = 0x3f
	)
	for ; len(directory) >= slot; directory = directory[slot:] {
		a := directory[attribute]
		hasCluster := binary.LittleEndian.Uint16(directory[clusterHigh:]) != 0 ||
			binary.LittleEndian.Uint16(directory[clusterLow:]) != 0
		switch {
		case directory[0] == 0:
			return nil, true
		case directory[0] == 0xe5, hasCluster, a&attributeMask == longName:
		case a&(volumeID|subdirectory) == volumeID:
			label := bytes.Clone(directory[:attribute])
			if label[0] == 0x05 {
				label[0] = 0xe5
			}
			return label, false
		}
	}
	return nil, false
}
