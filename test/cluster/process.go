package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/loam-os/loam/test/child"
)

// hostTimeout is for a host that is busy: it is no expected time.
const hostTimeout = 90 * time.Second

// host is where the processes of one service run.
type host struct {
	dir      string            // working directory of all, with their files and logs
	programs map[string]string // name to path
	all      []*process
	releases []func() // of its ports
}

// end ends all processes, and gives back the ports.
func (h *host) end() {
	for _, p := range h.all {
		p.kill()
	}
	for _, release := range h.releases {
		release()
	}
}

// reservePort is ReservePort for a service of the host.
func (h *host) reservePort(ip string) (int, error) {
	port, release, err := ReservePort(ip)
	if err == nil {
		h.releases = append(h.releases, release)
	}
	return port, err
}

// process is a program that runs, or ran.
type process struct {
	name   string
	cmd    *exec.Cmd
	exited chan struct{} // closed when it has ended, with err
	err    error
}

// start starts a program with its output in the file NAME.log.
func (h *host) start(name string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(h.dir, name+".log"),
		os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()

	p := &process{
		name:   name,
		cmd:    exec.Command(h.programs[name], args...),
		exited: make(chan struct{}),
	}

	p.cmd.Dir = h.dir
	p.cmd.Stdout = log
	p.cmd.Stderr = log
	p.cmd.Env = append(os.Environ(),
		"OTEL_TRACES_EXPORTER=none", // The registry has one by default.
		"GOGC=400",                  // It starts most of the time, and makes much garbage then.
	)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	wait, err := child.Start(p.cmd)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		defer close(p.exited)
		p.err = wait()
	}()

	h.all = append(h.all, p)
	return p, nil
}

// kill ends the process and all that it started. It may have ended before.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.exited
}

// await asks until the answer is nil: no program here announces that it is
// ready. The error for a program that never gets ready has the end of its log.
func (h *host) await(ctx context.Context, p *process, ready func() error) error {
	ctx, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()

	for {
		err := ready()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-p.exited:
			return fmt.Errorf("%s ended: %w\n%s", p.name, errors.Join(p.err, err), p.logEnd())
		case <-ctx.Done():
			return fmt.Errorf("%s is not ready: %w: %w\n%s", p.name, ctx.Err(), err, p.logEnd())
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
func (h *host) write(name, text string) error {
	return os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600)
}
