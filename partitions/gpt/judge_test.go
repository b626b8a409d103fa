package gpt

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/loam-os/loam/test/judge"
)

// TestSfdisk lets sfdisk judge a new and a grown table. Before version 2.40 it
// knows a file's sectors as 512 bytes only.
func TestSfdisk(t *testing.T) {
	for _, sectorSize := range []int{512, 4096} {
		t.Run(fmt.Sprint("sectors of ", sectorSize), func(t *testing.T) {
			if sectorSize != 512 &&
				!strings.Contains(judge.Run(t, "sfdisk", "--help"), "--sector-size") {
				judge.Lacking(t, "sfdisk is too old")
			}

			path := filepath.Join(t.TempDir(), "disk")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()

			table := sample(sectorSize)
			if err := errors.Join(f.Truncate(table.DiskSize), table.Create(f)); err != nil {
				t.Fatal(err)
			}

			sfdiskAgrees(t, path, table)
			grown, _ := table.Grow(200 * mib)
			if err := errors.Join(f.Truncate(200*mib), grown.Write(f)); err != nil {
				t.Fatal(err)
			}

			sfdiskAgrees(t, path, grown)
		})
	}
}

// sfdiskAgrees checks that sfdisk finds no fault in the disk and reads the same
// partitions from it.
func sfdiskAgrees(t *testing.T, path string, want Table) {
	t.Helper()
	var sectorSize []string
	if want.SectorSize != 512 {
		sectorSize = []string{"--sector-size", fmt.Sprint(want.SectorSize)}
	}

	out := judge.Run(t, "sfdisk", append(sectorSize, "--verify", path)...)
	if !strings.Contains(out, "No errors detected") || strings.Contains(out, "mismatch") {
		t.Errorf("sfdisk --verify:\n%s", out)
	}

	var doc struct {
		PartitionTable struct {
			ID         string
			Partitions []struct {
				Start, Size            int64
				Type, UUID, Name, Node string
			}
		}
	}

	err := json.Unmarshal([]byte(judge.Run(t, "sfdisk", append(sectorSize, "--json", path)...)),
		&doc)
	if err != nil {
		t.Fatal(err)
	}

	got := Table{
		DiskGUID:   uuid.MustParse(doc.PartitionTable.ID),
		SectorSize: want.SectorSize,
		DiskSize:   want.DiskSize,
	}

	for i, p := range doc.PartitionTable.Partitions {
		if !strings.HasSuffix(p.Node, fmt.Sprint(want.Partitions[i].Index)) {
			t.Errorf("node %s, want index %d", p.Node, want.Partitions[i].Index)
		}

		sector := int64(want.SectorSize)
		got.Partitions = append(got.Partitions, Partition{
			Index:      want.Partitions[i].Index,
			Type:       uuid.MustParse(p.Type),
			UUID:       uuid.MustParse(p.UUID),
			Label:      p.Name,
			Start:      p.Start * sector,
			Size:       p.Size * sector,
			Attributes: want.Partitions[i].Attributes,
		})
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sfdisk --json (-want +got):\n%s", diff)
	}
}
