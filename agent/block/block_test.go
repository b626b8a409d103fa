package block_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/block"
)

func TestADiskAsSysfsHasIt(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"size":                     "1024\n",
		"nvme0n1p1/partition":      "1\n",
		"nvme0n1p2/partition":      "2\n",
		"queue/logical_block_size": "512\n",
	} {
		name = filepath.Join(dir, name)
		err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
			os.WriteFile(name, []byte(text), 0o644))
		if err != nil {
			t.Fatal(err)
		}
	}

	if n, err := block.Number(dir, "size"); n != 1024 || err != nil {
		t.Errorf("size %d %v", n, err)
	}
	if n, err := block.Number(dir, "ro"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %d %v", n, err)
	}

	diff := cmp.Diff(map[int]string{1: "/dev/nvme0n1p1", 2: "/dev/nvme0n1p2"},
		block.Partitions(dir))
	if diff != "" {
		t.Errorf("partitions (-want +got):\n%s", diff)
	}

	if node := block.Node("cciss!c0d0"); node != "/dev/cciss/c0d0" {
		t.Errorf("node %s", node)
	}
}
