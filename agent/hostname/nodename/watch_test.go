package nodename

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestAwaitChange runs itself in a UTS namespace of its own.
func TestAwaitChange(t *testing.T) {
	if os.Getenv("LOAM_TEST_RENAME") == "" {
		args := []string{"--uts", os.Args[0], "-test.run=^" + t.Name() + "$", "-test.v"}
		if os.Getuid() != 0 {
			args = append([]string{"--map-root-user"}, args...)
		}
		cmd := exec.Command("unshare", args...)
		cmd.Env = append(os.Environ(), "LOAM_TEST_RENAME=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}

	if err := unix.Sethostname([]byte("node-1")); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error)
	go func() { over <- AwaitChange(ctx, "node-1") }()
	cancel()
	if err := <-over; err != nil {
		t.Errorf("when the agent ends: %v", err)
	}

	go func() { over <- AwaitChange(t.Context(), "node-1") }()
	asleep(t)
	if err := unix.Sethostname([]byte("node-2")); err != nil {
		t.Fatal(err)
	}
	if err := <-over; !errors.Is(err, ErrChanged) || !strings.Contains(err.Error(), "node-2") {
		t.Errorf("when the host name changes: %v", err)
	}
	if err := AwaitChange(t.Context(), "node-1"); !errors.Is(err, ErrChanged) {
		t.Errorf("when it was changed before: %v", err)
	}
}

// asleep waits until a thread of this process waits in poll(2).
func asleep(t *testing.T) {
	for {
		calls, err := filepath.Glob("/proc/self/task/*/syscall")
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range calls {
			if text, err := os.ReadFile(name); err == nil &&
				strings.HasPrefix(string(text), fmt.Sprint(unix.SYS_PPOLL, " ")) {
				return
			}
		}
	}
}
