package terminal

import (
	"os/exec"
	"syscall"
	"testing"
)

// Bash is a shell that edits lines and has job control, as the one on a serial
// port of a machine, until the test ends.
func Bash(t *testing.T) Terminal {
	t.Helper()
	pts := Open(t, 80, 24)
	cmd := exec.Command("bash", "--norc")
	cmd.Stdin = pts.Program
	cmd.Stdout = pts.Program
	cmd.Stderr = pts.Program
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})

	return pts
}
