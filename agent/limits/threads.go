package limits

import (
	"runtime"
	"sync"
)

// SpareThreads are enough for the agent: a thread for each processor that runs Go,
// and one for each call that waits in the kernel.
const SpareThreads = 16

// KeepThreads makes n threads, which the runtime keeps and uses before it asks the
// kernel for another. It ends the process if the kernel gives none (newosproc in
// runtime/os_linux.go).
func KeepThreads(n int) {
	var running sync.WaitGroup
	running.Add(n)
	release := make(chan struct{})
	for range n {
		go func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			running.Done()
			<-release
		}()
	}
	running.Wait()
	close(release)
}
