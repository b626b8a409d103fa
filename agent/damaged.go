package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/partitions/ext4"
)

// ofDamage are the errors of a file system in which the kernel has found errors
// (EUCLEAN is its EFSCORRUPTED, EBADMSG its EFSBADCRC).
var ofDamage = []error{unix.EROFS, unix.EUCLEAN, unix.EBADMSG, unix.EIO}

// restartDamaged restarts the machine if the agent has ended because the kernel has
// found errors in the state partition: the next boot finds the error flag, and
// repairs the partition (/init counts that). It returns err as it is if that is not
// so, and never restarts for a partition that would not be repaired.
func (n *node) restartDamaged(ctx context.Context, err error) error {
	isDamage := slices.ContainsFunc(ofDamage, func(d error) bool { return errors.Is(err, d) })
	if !isDamage || !hasErrors(n.record.State) {
		return err
	}

	why := fmt.Errorf("the kernel has found errors in the state partition %s: the machine "+
		"restarts, and repairs it", n.record.State)
	n.Log.Error("state partition", zap.Error(err), zap.NamedError("why", why))
	n.status.Error = loop.Describe(why)
	if n.Consoles != nil {
		n.Consoles.Show(n.status, true)
	}
	if rebootErr := n.systemd.Reboot(ctx); rebootErr != nil {
		return errors.Join(err, rebootErr)
	}
	<-ctx.Done()
	return nil
}

// hasErrors reports whether the file system of a device has the error flag, on the
// device and not only in memory: what cannot be written there is gone after a restart.
func hasErrors(device string) bool {
	f, err := os.OpenFile(device, os.O_RDONLY|unix.O_DIRECT, 0)
	if err != nil {
		return false
	}
	defer f.Close()

	const page = 4096 // What O_DIRECT wants, on every disk that the kernel supports.
	head, err := unix.Mmap(-1, 0, page, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return false
	}
	defer unix.Munmap(head)

	n, err := f.ReadAt(head, 0)
	if err != nil {
		return false
	}
	sb, err := ext4.ReadSuperblock(bytes.NewReader(head[:n]))
	return err == nil && sb.Errors
}
