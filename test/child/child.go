// Package child starts processes that end with the one that starts them.
package child

import (
	"os/exec"
	"runtime"
)

// Start starts cmd, and returns how to wait for its end, once.
//
// The kernel sends the death signal of a process (prctl(2), PR_SET_PDEATHSIG, which is
// what --die-with-parent of bubblewrap sets, too) when the thread that started it
// ends, not its process. A thread of Go ends with a goroutine that has locked it, which
// may be one that comes later. So nothing else runs on this thread until cmd has
// ended.
func Start(cmd *exec.Cmd) (wait func() error, err error) {
	started := make(chan error)
	ended := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return func() error { return <-ended }, nil
}
