package ethernet

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/judge"
)

// inside is set in the process that is in a namespace of its own.
const inside = "LOAM_TEST_NETWORK"

// Own runs the test once more in a process with network namespace of its own,
// and reports whether this is that process. The other one has nothing left to
// do when it returns.
func Own(t *testing.T) bool {
	t.Helper()
	if os.Getenv(inside) != "" {
		return true
	}

	if tap, err := os.OpenFile("/dev/net/tun", os.O_RDWR, 0); err != nil {
		judge.Lacking(t, err)
	} else {
		tap.Close()
	}

	name := "^" + strings.ReplaceAll(regexp.QuoteMeta(t.Name()), "/", "$/^") + "$"
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.count=1",
		"-test.run="+name)
	cmd.Env = append(os.Environ(), inside+"=own")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET,
		Pdeathsig:  syscall.SIGKILL,
	}

	if uid := os.Getuid(); uid != 0 {
		cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{Size: 1, HostID: uid}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{Size: 1, HostID: os.Getgid()}}
	}

	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		// forbidden, or limited to none
		judge.Lacking(t, fmt.Errorf("a network namespace for a user: %w", err))
	}

	if err != nil {
		t.Fatalf("in a network of its own: %v\n%s", err, out)
	}

	t.Logf("%s", out)
	return false
}
