package drive

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/judge"
)

// medium is a FAT in a file that a test changes.
type medium struct {
	t    *testing.T
	file *os.File
	volume
}

// format has mkfs.fat make a FAT.
func format(t *testing.T, bits, sector int, arguments ...string) *medium {
	t.Helper()
	sizes := map[int]int64{12: 4 << 20, 16: 64 << 20, 32: 64 << 20}
	if sector == 4096 && bits == 32 {
		sizes[32] = 512 << 20
	}
	path := filepath.Join(t.TempDir(), "drive")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if err := f.Truncate(sizes[bits]); err != nil {
		t.Fatal(err)
	}
	arguments = append(arguments, "-F", strconv.Itoa(bits), "-S", strconv.Itoa(sector), path)
	judge.Run(t, "mkfs.fat", arguments...)

	m := &medium{t: t, file: f}
	var ok bool
	if m.volume, ok = readVolume(m.read(0, 512)); !ok {
		t.Fatal("mkfs.fat makes no FAT")
	}
	return m
}

func (m *medium) read(off int64, n int) []byte {
	m.t.Helper()
	b, err := at(m.file, off, n)
	if err != nil {
		m.t.Fatal(err)
	}
	return b
}

func (m *medium) write(off int64, b []byte) {
	m.t.Helper()
	if _, err := m.file.WriteAt(b, off); err != nil {
		m.t.Fatal(err)
	}
}

// isFAT32 reports whether the root directory is a chain of clusters.
func (m *medium) isFAT32() bool { return m.rootCluster != 0 }

// noType removes the text for the type.
func (m *medium) noType() {
	at := int64(typeOfFAT16)
	if m.isFAT32() {
		at = typeOfFAT32
	}
	m.write(at, make([]byte, 8))
}

// directory is where the root directory, or its first cluster, begins.
func (m *medium) directory() int64 {
	if m.isFAT32() {
		return m.offset(m.rootCluster)
	}
	return m.root
}

// perCluster is how many entries fit where the directory begins.
func (m *medium) perCluster() int {
	if m.isFAT32() {
		return int(m.cluster / 32)
	}
	return int(m.rootSize / 32)
}

func (m *medium) offset(cluster int64) int64 { return m.data + (cluster-2)*m.cluster }

// entry returns a directory entry.
func entry(name string, attribute byte, cluster uint16) []byte {
	e := make([]byte, 32)
	copy(e, fmt.Sprintf("%-11s", name))
	e[11] = attribute
	binary.LittleEndian.PutUint16(e[26:], cluster)
	return e
}

// files returns n entries of files.
func files(n int) []byte {
	var b []byte
	for i := range n {
		b = append(b, entry(fmt.Sprintf("F%07d", i), 0x20, 5)...)
	}
	return b
}

// next sets the entry of a cluster in both FATs of FAT32.
func (m *medium) next(cluster int64, next uint32) {
	b := make([]byte, 4)
	binary.LittleEndian.PutUint32(b, next)
	m.write(m.table+4*cluster, b)
}

// fragmented puts the root directory into a chain of clusters that are apart,
// full of files, with the label in the last.
func (m *medium) fragmented(chain ...int64) {
	before := m.rootCluster
	m.write(m.offset(before), files(m.perCluster()))
	for _, cluster := range chain {
		m.next(before, uint32(cluster)|0xf0000000) // The upper bits mean nothing.
		m.write(m.offset(cluster), files(m.perCluster()))
		before = cluster
	}
	m.next(before, 0x0fffffff)
	m.write(m.offset(before), entry("LOAM", 8, 0))
}

// fatChanges are what others do to a FAT. only32 needs the root directory of
// FAT32.
var fatChanges = []struct {
	name   string
	only32 bool
	change func(m *medium)
	want   FileSystem
}{
	{name: "as it was made", change: func(*medium) {}, want: FileSystem{"vfat", "MADE"}},
	{
		name: "no text for its type", want: FileSystem{"vfat", "MADE"},
		change: (*medium).noType,
	},
	{
		name: "neither a text for its type nor a signature",
		change: func(m *medium) {
			m.noType()
			m.write(510, []byte{0, 0})
		},
	},
	{
		name: "no signature", want: FileSystem{"vfat", "MADE"},
		change: func(m *medium) { m.write(510, []byte{0, 0}) },
	},
	{
		name: "a text for HPFS", want: FileSystem{"vfat", "MADE"},
		change: func(m *medium) { m.write(3, []byte("HPFS    ")) },
	},
	{
		name: "a label in lower case", want: FileSystem{"vfat", "cidata"},
		change: func(m *medium) { m.write(m.directory(), entry("cidata", 8, 0)) },
	},
	{
		name: "a label with spaces", want: FileSystem{"vfat", "MY CIDATA"},
		change: func(m *medium) { m.write(m.directory(), entry("MY CIDATA", 8, 0)) },
	},
	{
		name: "the archive bit on the label", want: FileSystem{"vfat", "LOAM"},
		change: func(m *medium) { m.write(m.directory(), entry("LOAM", 0x28, 0)) },
	},
	{
		name: "a removed label before the label", want: FileSystem{"vfat", "LOAM"},
		change: func(m *medium) {
			m.write(m.directory(), append(entry("\xe5EMOVED", 8, 0), entry("LOAM", 8, 0)...))
		},
	},
	{
		name: "a removed label and no other", want: FileSystem{"vfat", "MADE"},
		change: func(m *medium) { m.write(m.directory(), entry("\xe5EMOVED", 8, 0)) },
	},
	{
		name: "a label behind the end of the directory", want: FileSystem{"vfat", "MADE"},
		change: func(m *medium) {
			m.write(m.directory(), append(make([]byte, 32), entry("LOAM", 8, 0)...))
		},
	},
	{
		name: "long names before the label", want: FileSystem{"vfat", "LOAM"},
		change: func(m *medium) {
			long := append(entry("\x41l\x00o\x00n\x00g", 0x0f, 0), files(1)...)
			m.write(m.directory(), append(long, entry("LOAM", 8, 0)...))
		},
	},
	{
		name: "a directory with the attribute of a label", want: FileSystem{"vfat", "MADE"},
		change: func(m *medium) { m.write(m.directory(), entry("SUB", 0x18, 7)) },
	},
	{
		name: "a file with the attribute of a label", want: FileSystem{"vfat", "LOAM"},
		change: func(m *medium) {
			m.write(m.directory(), append(entry("FILE", 0x28, 9), entry("LOAM", 8, 0)...))
		},
	},
	{
		name: "the label as the last entry", want: FileSystem{"vfat", "LOAM"},
		change: func(m *medium) {
			m.write(m.directory(), append(files(m.perCluster()-1), entry("LOAM", 8, 0)...))
		},
	},
	{
		name: "no label in the boot sector", want: FileSystem{"vfat", "LOAM"},
		change: func(m *medium) {
			at := int64(43)
			if m.isFAT32() {
				at = 71
			}
			m.write(at, []byte("NO NAME    "))
			m.write(m.directory(), entry("LOAM", 8, 0))
		},
	},
	{
		name: "no label anywhere", want: FileSystem{Type: "vfat"},
		change: func(m *medium) {
			at := int64(43)
			if m.isFAT32() {
				at = 71
			}
			m.write(at, []byte("NO NAME    "))
			m.write(m.directory(), make([]byte, 32))
		},
	},
	{
		name: "an extended character at the beginning", want: FileSystem{"vfat", "\xe5OAM"},
		change: func(m *medium) { m.write(m.directory(), entry("\x05OAM", 8, 0)) },
	},
	{
		name: "a directory of fragments", only32: true, want: FileSystem{"vfat", "LOAM"},
		change: func(m *medium) { m.fragmented(90, 17, 400) },
	},
	{
		name: "a directory of 90 fragments", only32: true, want: FileSystem{"vfat", "LOAM"},
		change: func(m *medium) {
			var chain []int64
			for i := range int64(90) {
				chain = append(chain, 1000-7*i)
			}
			m.fragmented(chain...)
		},
	},
	{
		name: "a directory with a loop", only32: true, want: FileSystem{"vfat", "MADE"},
		change: func(m *medium) {
			m.fragmented(90, 17, 400)
			m.next(17, 90)
		},
	},
	{
		name: "a chain that leads out of the FAT", only32: true, want: FileSystem{"vfat", "MADE"},
		change: func(m *medium) {
			m.fragmented(90, 17, 400)
			m.next(17, 0x0ffffff0)
		},
	},
	{
		name: "a root directory in cluster 1", only32: true, want: FileSystem{"vfat", "MADE"},
		change: func(m *medium) { m.write(44, []byte{1, 0, 0, 0}) },
	},
	{name: "sectors of 500 bytes", change: func(m *medium) { m.write(11, []byte{0xf4, 1}) }},
	{name: "sectors of 256 bytes", change: func(m *medium) { m.write(11, []byte{0, 1}) }},
	{name: "clusters of 3 sectors", change: func(m *medium) { m.write(13, []byte{3}) }},
	{name: "clusters of 0 sectors", change: func(m *medium) { m.write(13, []byte{0}) }},
	{name: "no reserved sector", change: func(m *medium) { m.write(14, []byte{0, 0}) }},
	{name: "no FAT", change: func(m *medium) { m.write(16, []byte{0}) }},
	{name: "another medium", change: func(m *medium) { m.write(21, []byte{0xf1}) }},
	{
		name: "the medium of a disk that can be removed", want: FileSystem{"vfat", "MADE"},
		change: func(m *medium) { m.write(21, []byte{0xf0}) },
	},
}

// TestFATIsWhatBlkidFinds changes FATs of all kinds, and has blkid say what they
// are then.
func TestFATIsWhatBlkidFinds(t *testing.T) {
	for _, kind := range []struct{ bits, sector int }{
		{12, 512}, {12, 4096}, {16, 512}, {16, 4096}, {32, 512}, {32, 4096},
	} {
		for _, tt := range fatChanges {
			if tt.only32 && kind.bits != 32 {
				continue
			}

			t.Run(fmt.Sprintf("FAT%d/%d/%s", kind.bits, kind.sector, tt.name), func(t *testing.T) {
				m := format(t, kind.bits, kind.sector, "-n", "MADE")
				tt.change(m)
				got, err := Identify(m.file)
				if err != nil || got != tt.want {
					t.Errorf("%+v, %v, want %+v", got, err, tt.want)
				}
				if diff := cmp.Diff(blkid(t, m.file.Name()), got); diff != "" {
					t.Errorf("(-blkid +got):\n%s", diff)
				}
			})
		}
	}
}

// blkid returns what blkid finds. A label in the boot sector counts if there is
// no other.
func blkid(t *testing.T, file string) FileSystem {
	t.Helper()
	out, _ := judge.Try(t, "blkid", "-p", "-o", "udev", file) // Exit status 2: nothing found.
	found := map[string]string{}
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		found[strings.TrimSuffix(strings.TrimPrefix(name, "ID_FS_"), "_ENC")] = unescape(t, value)
	}

	system := FileSystem{found["TYPE"], found["LABEL"]}
	if system.Label == "" {
		system.Label = found["LABEL_FATBOOT"]
	}
	if system.Type != "vfat" && system.Type != "iso9660" {
		return FileSystem{}
	}
	system.Label = strings.TrimRight(system.Label, " ")
	return system
}

// unescape decodes \x20 in a value for udev.
func unescape(t *testing.T, text string) string {
	t.Helper()
	if !strings.Contains(text, `\x`) {
		return text
	}
	out, err := strconv.Unquote(`"` + text + `"`)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestDamagedFATEnds cuts a FAT short at every place that is read.
func TestDamagedFATEnds(t *testing.T) {
	m := format(t, 32, 512, "-n", "MADE")
	m.fragmented(90, 17, 400)
	for _, size := range []int64{
		0, 1, 100, 511, 512, 513, m.table, m.table + 8, m.table + 9, m.table + 10, m.data,
		m.data + 31, m.data + m.cluster - 1, m.offset(17), m.offset(17) + 10, m.offset(400) + 20,
		m.offset(400) + 32,
	} {
		if err := m.file.Truncate(m.offset(400) + 32); err != nil {
			t.Fatal(err)
		}
		part := m.read(0, int(size))
		got, err := Identify(strings.NewReader(string(part)))
		want := FileSystem{"vfat", "MADE"}
		switch {
		case size < 512:
			want = FileSystem{}
		case size == m.offset(400)+32:
			want.Label = "LOAM"
		}
		if err != nil || got != want {
			t.Errorf("%d bytes: %+v, %v, want %+v", size, got, err, want)
		}
	}
}
