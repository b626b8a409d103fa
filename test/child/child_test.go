package child_test

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/loam-os/loam/test/child"
)

// TestAChildOutlivesThreads ends many threads while a child with a death signal runs.
func TestAChildOutlivesThreads(t *testing.T) {
	cmd := exec.Command("cat")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	wait, err := child.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}

	const threads = 50
	var all, ended sync.WaitGroup
	all.Add(threads)
	for range threads {
		ended.Go(func() {
			runtime.LockOSThread() // and never back: the thread ends
			all.Done()
			all.Wait()
		})
	}
	ended.Wait()

	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	if err := wait(); err != nil {
		t.Errorf("the child: %v", err)
	}
}

func TestAChildThatDoesNotStart(t *testing.T) {
	if _, err := child.Start(exec.Command("/nothing")); err == nil {
		t.Error("no error")
	}
}
