package agent

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/files"
)

// TestOnlyAFlaggedPartitionRestartsTheMachine: what the next boot would not repair must
// not restart it, or it restarts for ever.
func TestOnlyAFlaggedPartitionRestartsTheMachine(t *testing.T) {
	file := filepath.Join(files.RootOnDisk(t).Name(), "state")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(file, 64<<20); err != nil {
		t.Fatal(err)
	}
	if hasErrors(file) {
		t.Error("an empty partition has errors")
	}

	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
	}
	run("mke2fs", "-q", "-F", "-t", "ext4", file)
	if hasErrors(file) {
		t.Error("a new file system has errors")
	}

	run("debugfs", "-w", "-R", "ssv state 2", file)
	run("sync", file)
	if !hasErrors(file) {
		t.Error("the error flag is not seen")
	}

	n := &node{}
	n.record.State = file
	for _, err := range []error{nil, os.ErrNotExist, fmt.Errorf("lock: %w", unix.ENOSPC)} {
		if got := n.restartDamaged(t.Context(), err); got != err {
			t.Errorf("%v became %v", err, got)
		}
	}
	n.record.State = filepath.Join(filepath.Dir(file), "gone")
	damage := fmt.Errorf("lock: %w", unix.EROFS)
	if got := n.restartDamaged(t.Context(), damage); got != damage {
		t.Errorf("without a partition: %v", got)
	}
}
