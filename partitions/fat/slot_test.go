package fat

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/loam-os/loam/partitions/fat/dirent"
)

// TestParse: directories as other drivers leave them.
func TestParse(t *testing.T) {
	short := func(base, ext string, attr, flags byte) []byte {
		s := dirent.ShortSlot(dirent.Pad(base, ext), attr, 5, 100)
		s[12] = flags
		return s
	}

	long := func(name, base string) []byte { return dirent.LongSlots(name, dirent.Pad(base, "")) }
	free := make([]byte, dirent.SlotSize)
	free[0] = dirent.Free
	file := func(name, short string) Entry { return Entry{Name: name, Short: short, Size: 100} }
	orphan := func(short string) Entry {
		return Entry{
			Name:   short,
			Short:  short,
			Size:   100,
			Orphan: true,
		}
	}

	for _, tc := range []struct {
		name  string
		slots [][]byte
		want  []Entry
		loose int
	}{
		{"nothing", nil, nil, 0},
		{
			"a name in upper case",
			[][]byte{short("A", "TXT", dirent.AttrArchive, 0)},
			[]Entry{file("A.TXT", "A.TXT")},
			0,
		},
		{
			"lower case, as Windows and mtools note it",
			[][]byte{short("A", "TXT", 0, 0x18), short("B", "TXT", 0, 0x10)},
			[]Entry{file("a.txt", "A.TXT"), file("B.txt", "B.TXT")},
			0,
		},
		{
			"a first byte that would mark a free slot",
			[][]byte{short("\x05A", "", 0, 0)},
			[]Entry{file("åA", "åA")},
			0,
		},
		{
			"a directory, whose size has no meaning",
			[][]byte{short("D", "", dirent.AttrDirectory, 0)},
			[]Entry{{Name: "D", Short: "D", Dir: true}},
			0,
		},
		{
			"a label and dots",
			[][]byte{
				short("LABEL", "", dirent.AttrLabel, 0), short(".", "", dirent.AttrDirectory, 0),
				short("..", "", dirent.AttrDirectory, 0),
			},
			nil,
			0,
		},
		{
			"a long name of exactly two slots",
			[][]byte{
				long("26 characters, no NUL ....x", "A")[dirent.SlotSize:], short("A", "", 0, 0),
			},
			[]Entry{orphan("A")},
			0,
		},
		{
			"a long name",
			[][]byte{long("a name of more slots", "A"), short("A", "", 0, 0)},
			[]Entry{file("a name of more slots", "A")},
			0,
		},
		{
			"a deleted file before it",
			[][]byte{free, free, long("long", "A"), short("A", "", 0, 0)},
			[]Entry{file("long", "A")},
			0,
		},
		{
			"a long name of another",
			[][]byte{long("long", "B"), short("A", "", 0, 0)},
			[]Entry{orphan("A")},
			0,
		},
		{
			"a long name without its last part",
			[][]byte{long("a name of more slots", "A")[dirent.SlotSize:], short("A", "", 0, 0)},
			[]Entry{orphan("A")},
			0,
		},
		{
			"a long name without its first part",
			[][]byte{long("a name of more slots", "A")[:dirent.SlotSize], short("A", "", 0, 0)},
			[]Entry{orphan("A")},
			0,
		},
		{
			"parts in the wrong order",
			[][]byte{
				long("a name of more slots", "A")[dirent.SlotSize:],
				long("a name of more slots", "A")[:dirent.SlotSize], short("A", "", 0, 0),
			},
			[]Entry{orphan("A")},
			0,
		},
		{
			"a long name and parts of one before it",
			[][]byte{long("a name of more slots", "B"), long("long", "A"), short("A", "", 0, 0)},
			[]Entry{file("long", "A")},
			2,
		},
		{
			"a long name whose entry is deleted",
			[][]byte{long("a name of more slots", "B"), free, short("A", "", 0, 0)},
			[]Entry{file("A", "A")},
			2,
		},
		{
			"a long name before a label",
			[][]byte{long("long", "B"), short("A", "", dirent.AttrLabel, 0)},
			nil,
			1,
		},
		{
			"a long name at the end",
			[][]byte{short("A", "", 0, 0), long("a name of more slots", "B")},
			[]Entry{file("A", "A")},
			2,
		},
		{
			"what is behind the end",
			[][]byte{make([]byte, dirent.SlotSize), short("A", "", 0, 0)},
			nil,
			0,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			d := directory{raw: slices.Concat(tc.slots...)}
			d.parse()
			diff := cmp.Diff(tc.want, d.entries,
				cmpopts.IgnoreUnexported(Entry{}))
			if diff != "" || len(d.loose) != tc.loose {
				t.Errorf("%d loose, want %d\n%s", len(d.loose), tc.loose, diff)
			}
		})
	}
}
