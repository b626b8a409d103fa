package upgrade

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
)

// loader is EDK2's FAT driver and systemd-boot as far as they matter here, written
// from their behaviour and apart from partitions/fat, so that the two check each
// other.
type loader struct {
	disk                         memory
	start                        int64 // of the ESP
	cluster, fat, data, rootFrom int64
}

func newLoader(disk memory, start int64) (loader, error) {
	b := make([]byte, 512)
	_, _ = disk.ReadAt(b, start)
	le := binary.LittleEndian
	if b[510] != 0x55 || b[511] != 0xaa {
		return loader{}, errors.New("no boot sector")
	}
	bytesPer := int64(le.Uint16(b[11:]))
	l := loader{disk: disk, start: start, cluster: bytesPer * int64(b[13]), rootFrom: int64(le.Uint32(b[44:]))}
	l.fat = int64(le.Uint16(b[14:])) * bytesPer
	l.data = l.fat + int64(b[16])*int64(le.Uint32(b[36:]))*bytesPer
	return l, nil
}

// chain are the offsets of a chain's clusters, on the disk.
func (l loader) chain(first int64) ([]int64, error) {
	var all []int64
	for c := first; c < 0x0ffffff8; {
		if c < 2 || len(all) > 100_000 {
			return nil, fmt.Errorf("broken chain at cluster %d", c)
		}
		all = append(all, l.start+l.data+(c-2)*l.cluster)
		b := make([]byte, 4)
		_, _ = l.disk.ReadAt(b, l.start+l.fat+4*c)
		c = int64(binary.LittleEndian.Uint32(b) & 0x0fffffff)
	}
	return all, nil
}

// dirent is an entry: where each of its 32-byte slots is on the disk.
type dirent struct {
	name   string
	first  int64
	size   int64
	slots  []int64
	raw    [][]byte
	orphan bool
}

// list is a directory, and the places after its end.
func (l loader) list(first int64) (all []dirent, free []int64, err error) {
	clusters, err := l.chain(first)
	if err != nil {
		return nil, nil, err
	}
	var long []dirent
	ended := false
	for _, at := range clusters {
		for off := int64(0); off < l.cluster; off += 32 {
			b := make([]byte, 32)
			_, _ = l.disk.ReadAt(b, at+off)
			switch {
			case ended || b[0] == 0:
				ended = true
				free = append(free, at+off)
			case b[0] == 0xe5:
				long = nil
			case b[11] == 0x0f:
				long = append(long, dirent{slots: []int64{at + off}, raw: [][]byte{b}})
			default:
				all = append(all, entryOf(long, b, at+off))
				long = nil
			}
		}
	}
	return all, free, nil
}

func entryOf(long []dirent, b []byte, at int64) dirent {
	le := binary.LittleEndian
	e := dirent{first: int64(le.Uint16(b[20:]))<<16 | int64(le.Uint16(b[26:])), size: int64(le.Uint32(b[28:]))}
	sum := byte(0)
	for _, c := range b[:11] {
		sum = (sum>>1 | sum<<7) + c
	}
	var units []uint16
	whole := len(long) > 0
	for i, s := range long {
		raw := s.raw[0]
		order := byte(len(long) - i)
		if i == 0 {
			order |= 0x40
		}
		whole = whole && raw[0] == order && raw[13] == sum
		var part []uint16
		for _, at := range []int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30} {
			part = append(part, le.Uint16(raw[at:]))
		}
		units = append(part, units...)
	}
	if !whole {
		e.orphan = b[11]&0x10 == 0 && b[11]&8 == 0
		e.name = strings.TrimSpace(string(b[:8]))
		if ext := strings.TrimSpace(string(b[8:11])); ext != "" {
			e.name += "." + ext
		}
		e.slots, e.raw = []int64{at}, [][]byte{b}
		return e
	}
	if end := slices.Index(units, 0); end >= 0 {
		units = units[:end]
	}
	e.name = string(utf16.Decode(units))
	for _, s := range long {
		e.slots, e.raw = append(e.slots, s.slots...), append(e.raw, s.raw...)
	}
	e.slots, e.raw = append(e.slots, at), append(e.raw, b)
	return e
}

func (l loader) read(e dirent) ([]byte, error) {
	clusters, err := l.chain(e.first)
	if err != nil {
		return nil, err
	}
	var b []byte
	for _, at := range clusters {
		c := make([]byte, l.cluster)
		_, _ = l.disk.ReadAt(c, at)
		b = append(b, c...)
	}
	if int64(len(b)) < e.size {
		return nil, fmt.Errorf("%s: %d bytes of %d", e.name, len(b), e.size)
	}
	return b[:e.size], nil
}

// find is the directory of boot entries.
func (l loader) find() ([]dirent, []int64, error) {
	at := l.rootFrom
	for _, name := range []string{"EFI", "Linux"} {
		all, _, err := l.list(at)
		if err != nil {
			return nil, nil, err
		}
		i := slices.IndexFunc(all, func(e dirent) bool { return strings.EqualFold(e.name, name) })
		if i < 0 {
			return nil, nil, fmt.Errorf("no directory %s", name)
		}
		at = all[i].first
	}
	return l.list(at)
}

// count renames an entry as EDK2 does: the old set goes, the new one comes at the
// end of the directory. A name that is there already is an error, upon which
// systemd-boot boots without counting.
func (l loader) count(e dirent, to string, free []int64, taken bool) error {
	if taken {
		return nil
	}
	if len(free) < len(e.slots) {
		return errors.New("the firmware would have to grow the directory")
	}
	units := append(utf16.Encode([]rune(to)), 0)
	for len(units)%13 != 0 {
		units = append(units, 0xffff)
	}
	if units[len(units)-13] == 0xffff {
		units = units[:len(units)-13]
	}
	parts := len(units) / 13
	if parts+1 != len(e.slots) {
		return fmt.Errorf("%s takes %d slots, its name before %d", to, parts+1, len(e.slots))
	}
	for i, raw := range e.raw {
		b := bytes.Clone(raw)
		if i < parts {
			for j, at := range []int{1, 3, 5, 7, 9, 14, 16, 18, 20, 22, 24, 28, 30} {
				binary.LittleEndian.PutUint16(b[at:], units[(parts-1-i)*13+j])
			}
		}
		_, _ = l.disk.WriteAt(b, free[i])
		_, _ = l.disk.WriteAt([]byte{0xe5}, e.slots[i])
	}
	return nil
}

// boot is one start of the machine: which system the loader starts, with the try
// that it counts on the disk. An error is a machine that does not come up.
func (p plant) boot(disk memory) (System, error) {
	table, err := gpt.Read(disk, p.table.DiskSize, sector)
	if err != nil {
		return System{}, err
	}
	l, err := newLoader(disk, p.table.Partitions[0].Start)
	if err != nil {
		return System{}, err
	}
	all, free, err := l.find()
	if err != nil {
		return System{}, err
	}
	var shown []dirent
	names := map[string]bootentry.Name{}
	for _, e := range all {
		if e.size == 0 {
			continue
		}
		shown = append(shown, e)
		if n, err := bootentry.Parse(e.name); err == nil {
			names[e.name] = n
		}
	}
	if len(shown) == 0 {
		return System{}, errors.New("no boot entry")
	}
	slices.SortStableFunc(shown, func(a, b dirent) int {
		if a.orphan != b.orphan { // The worst that can be: it goes first.
			return map[bool]int{true: -1, false: 1}[a.orphan]
		}
		return bootentry.Compare(names[a.name], names[b.name])
	})
	chosen := shown[0]
	if n := names[chosen.name]; n.Counted && n.TriesLeft > 0 {
		n.TriesLeft, n.TriesDone = n.TriesLeft-1, min(9, n.TriesDone+1)
		to, err := bootentry.Format(n)
		if err != nil {
			return System{}, err
		}
		taken := slices.ContainsFunc(all, func(e dirent) bool { return e.name == to })
		if err := l.count(chosen, to, free, taken); err != nil {
			return System{}, err
		}
	}
	return p.start(l, chosen, table)
}

// start is the UKI and /init: the system whose content is in the slot that the
// command line names.
func (p plant) start(l loader, e dirent, table gpt.Table) (System, error) {
	content, err := l.read(e)
	if err != nil {
		return System{}, err
	}
	at := slices.IndexFunc(p.releases, func(r release) bool { return bytes.Equal(r.uki, content) })
	if at < 0 {
		return System{}, fmt.Errorf("%s is no UKI that anybody made", e.name)
	}
	r := p.releases[at]
	hash, err := rootHash(r.RootHash)
	if err != nil {
		return System{}, err
	}
	for want, id := range map[string][16]byte{"root": partitions.RootUUID(hash), "verity": partitions.VerityUUID(hash)} {
		i := slices.IndexFunc(table.Partitions, func(p gpt.Partition) bool { return [16]byte(p.UUID) == id })
		if i < 0 {
			return System{}, fmt.Errorf("%s of %s, root hash %s: no such partition", want, r.Version, hex.EncodeToString(hash[:6]))
		}
		content := map[string][]byte{"root": r.root, "verity": r.verity}[want]
		have := make([]byte, len(content))
		_, _ = l.disk.ReadAt(have, table.Partitions[i].Start)
		if !bytes.Equal(have, content) {
			return System{}, fmt.Errorf("%s of %s: its content is another", want, r.Version)
		}
	}
	return r.System, nil
}
