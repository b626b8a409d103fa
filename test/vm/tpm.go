package vm

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/child"
)

// tpmFD is where QEMU and swtpm have the ends of their connection: the first of
// exec.Cmd's ExtraFiles.
const tpmFD = 3

// plugTPM starts the machine's TPM, by swtpm, and gives its connection to QEMU,
// with which it ends. wait waits for that.
func (c Config) plugTPM(ctx context.Context, run Runner, qemu *exec.Cmd) (wait func(), err error) {
	if c.TPM == "" {
		return func() {}, nil
	}

	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("connect swtpm: %w", err)
	}

	chip := run(ctx, "swtpm", "socket", "--tpm2", "--tpmstate", "dir="+c.TPM, "--ctrl",
		fmt.Sprintf("type=unixio,clientfd=%d", tpmFD), "--terminate")
	theirs := os.NewFile(uintptr(pair[0]), "swtpm")
	defer theirs.Close()

	chip.ExtraFiles = []*os.File{
		theirs,
	}

	qemu.ExtraFiles = []*os.File{os.NewFile(uintptr(pair[1]), "tpm")}

	left, err := child.Start(chip)
	if err != nil {
		return nil, fmt.Errorf("start swtpm: %w", err)
	}

	return func() { _ = left() }, nil // It says that it was left.
}
