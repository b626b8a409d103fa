package repair

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/loam-os/loam/partitions/ext4"
)

// lacksJournal reports whether the file system has no journal.
func (r Runner) lacksJournal() bool {
	f, err := os.Open(r.Device)
	if err != nil {
		return false
	}
	defer f.Close()

	sb, err := ext4.ReadSuperblock(f)
	return err == nil && sb.NoJournal
}

// makeJournal makes a journal. With a damaged one, e2fsck removes the file for
// orphaned inodes, too, but e2fsck 1.47 leaves the number of its inode in the
// superblock. It takes whatever gets the number next for that file, and would
// remove it. ext4 does well without that file, and tune2fs 1.47 cannot always
// make one.
func (r Runner) makeJournal(ctx context.Context, v *View) {
	err := errors.Join(
		r.run(ctx, "debugfs", "-w", "-R", "set_super_value orphan_file_inum 0", r.Device),
		r.run(ctx, "tune2fs", "-O", "has_journal", r.Device),
	)
	if err == nil && r.lacksJournal() {
		err = errors.New("tune2fs: the file system has no journal still")
	}
	if err != nil {
		v.fail(err)
		return
	}
	v.Record.Changes++
}

// run runs a command, whose output is part of the error only.
func (Runner) run(ctx context.Context, name string, args ...string) error {
	out, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, out)
	}
	return nil
}
