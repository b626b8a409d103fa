package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is for a host that is busy: it is no expected time.
const patience = 90 * time.Second

// host is where the processes of one test run.
type host struct {
	dir      string            // working directory of all, with their files and logs
	programs map[string]string // name to path
	all      []*process
}

// newHost is for the programs named. It ends its processes with t, and shows the
// ends of their logs if t failed.
func newHost(t testing.TB, names ...string) *host {
	t.Helper()
	h := &host{programs: programs(t, names...), dir: t.TempDir()}
	t.Cleanup(func() {
		for _, p := range h.all {
			p.kill()
			if t.Failed() {
				t.Logf("%s, the end of its log:\n%s", p.name, p.logEnd())
			}
		}
	})
	return h
}

// process is a program that runs, or ran.
type process struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended, with err
	err    error
}

// start starts a program with its output in the file NAME.log.
func (h *host) start(t testing.TB, name string, args ...string) *process {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(h.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	p := &process{name: name, cmd: exec.Command(h.programs[name], args...), exited: make(chan struct{})}
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = h.dir, log, log
	p.cmd.Env = append(os.Environ(), "OTEL_TRACES_EXPORTER=none") // the registry has one by default
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	go p.run(started)
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	h.all = append(h.all, p)
	return p
}

// run holds one thread until the process has ended: the kernel sends the death
// signal when the thread that started it ends, not the whole process (prctl(2)).
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	err := p.cmd.Start()
	started <- err
	if err == nil {
		p.err = p.cmd.Wait()
	}
	close(p.exited)
}

// kill ends the process and all that it started. It may have ended before.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.exited
}

// await asks until the answer is nil: no program here says when it is ready.
func (h *host) await(t testing.TB, p *process, ready func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-p.exited:
			t.Fatalf("%s ended: %v", p.name, errors.Join(p.err, err))
		case <-ctx.Done():
			t.Fatalf("%s is not ready after %s: %v", p.name, patience, err)
		}
	}
}

func (p *process) logEnd() string {
	const most = 30
	text, err := os.ReadFile(filepath.Join(p.cmd.Dir, p.name+".log"))
	if err != nil {
		return fmt.Sprint(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}

// write writes a file that a process reads.
func (h *host) write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
