package repair

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChanges counts what e2fsck 1.47 printed with -p and with -y.
func TestChanges(t *testing.T) {
	const output = `loam-state: Inode 14 extent tree (at level 1) could be shorter.  IGNORED.
loam-state: Deleted inode 15 has zero dtime.  FIXED.
Pass 1: Checking inodes, blocks, and sizes
Inode 16 seems to contain garbage.  Clear? yes

Pass 2: Checking directory structure
Entry 'a' in / (2) has deleted/unused inode 16.  Clear? no

loam-state: ***** FILE SYSTEM WAS MODIFIED *****
loam-state: 12/65536 files (0.0% non-contiguous), 1000/65536 blocks
`
	c := &changes{}
	for chunk := range strings.SplitAfterSeq(output, "e") { // It comes in pieces.
		if _, err := io.WriteString(c, chunk); err != nil {
			t.Fatal(err)
		}
	}

	want := []string{
		"loam-state: Deleted inode 15 has zero dtime.  FIXED.",
		"Inode 16 seems to contain garbage.  Clear? yes",
	}
	if diff := cmp.Diff(want, c.first); diff != "" || c.count != len(want) {
		t.Errorf("%d changes\n%s", c.count, diff)
	}
}

func TestAVerdictAboutACopyIsNone(t *testing.T) {
	c := &changes{}
	_, err := io.WriteString(c, "e2fsck: Group descriptors look bad... trying backup blocks...\n")
	if err != nil || !c.fromBackup {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestALogIsBounded(t *testing.T) {
	var log bytes.Buffer
	stops := 0
	b := &bounded{to: &log, room: 10, full: func() { stops++ }}
	for range 4 {
		if _, err := io.WriteString(b, "1234"); err != nil {
			t.Fatal(err)
		}
	}

	if log.String() != "12341234" || stops != 1 || b.room >= 0 {
		t.Errorf("log %q, stopped %d times, room %d", &log, stops, b.room)
	}
}
