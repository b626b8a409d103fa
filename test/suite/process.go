package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// grace is how long what is interrupted may clean up.
const grace = 10 * time.Second

// process is a command in a process group of its own, so that all that it
// starts can be ended.
type process struct {
	dir     string
	command []string
	// env is set beside the environment of this process.
	env []string
	// grace is how long it may clean up after an interrupt.
	grace time.Duration
	out   io.Writer
	// errOut is out if it is nil.
	errOut io.Writer
}

// run runs the command. When ctx ends, it interrupts the group,
// and kills what is left of it after a while.
func (p process) run(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, p.command[0], p.command[1:]...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Stdout = p.out
	cmd.Stderr = p.out
	if p.errOut != nil {
		cmd.Stderr = p.errOut
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	cmd.WaitDelay = p.grace

	err := cmd.Run()
	if ctx.Err() != nil && cmd.Process != nil {
		// Best effort: usually the group is empty by now.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}

	// The command succeeded; a process that it left behind has its output open.
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		return nil
	}
	return err
}
