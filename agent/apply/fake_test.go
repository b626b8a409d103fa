package apply_test

import (
	"context"
	"fmt"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/loam-os/loam/agent/unit"
)

// fakeSystemd keeps units in memory. Like systemd, it knows a unit only after a
// reload, and gives each start a new invocation ID. A unit whose text has "exit
// 3" fails to start.
type fakeSystemd struct {
	root, image *os.Root
	mu          sync.Mutex
	texts       map[string]string
	states      map[string]unit.State
	starts      int
	reloads     []string
	// conf is the content of /etc/app/a.conf when a unit was last started.
	conf map[string]string
}

func newFake(root, image *os.Root) *fakeSystemd {
	f := &fakeSystemd{
		root:   root,
		image:  image,
		states: map[string]unit.State{},
		conf:   map[string]string{},
	}
	f.load()
	_ = f.Start(context.Background(), "systemd-journald.service")
	return f
}

func (f *fakeSystemd) load() {
	f.texts = map[string]string{}
	for dir, root := range map[string]*os.Root{
		"usr/lib/systemd/system": f.image,
		"etc/systemd/system":     f.root,
	} {
		d, err := root.Open(dir)
		if err != nil {
			continue
		}

		names, _ := d.Readdirnames(-1)
		d.Close()
		for _, name := range names {
			target, err := root.Readlink(path.Join(dir, name))
			if err != nil {
				f.texts[name] = "image"
				continue
			}
			f.texts[name] = f.read(target)
		}
	}
}

// read reads a file through /run/loam/current, which leads to
// os/<version>/current in /var/lib/loam.
func (f *fakeSystemd) read(name string) string {
	current, _ := f.root.Readlink("run/loam/current")
	text, _ := f.root.ReadFile(
		strings.TrimPrefix(strings.Replace(name, "/run/loam/current", current, 1), "/"),
	)
	return string(text)
}

func (f *fakeSystemd) Reload(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.load()
	return nil
}

func (f *fakeSystemd) Start(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.states[name].Running() {
		return nil
	}
	return f.start("start", name)
}

func (f *fakeSystemd) Restart(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.start("restart", name)
}

func (f *fakeSystemd) ReloadUnit(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reloads = append(f.reloads, name)
	return nil
}

func (f *fakeSystemd) ResetFailed(context.Context, string) {}

func (f *fakeSystemd) Stop(_ context.Context, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.states[name]
	s.Active = "inactive"
	f.states[name] = s

	return nil
}

func (f *fakeSystemd) Show(_ context.Context, names []string) ([]unit.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()

	var states []unit.State
	for _, name := range names {
		s, ok := f.states[name]
		if !ok {
			s.Active = "inactive"
		}
		s.Name = name
		states = append(states, s)
	}

	return states, nil
}

func (f *fakeSystemd) start(verb, name string) error {
	text, ok := f.texts[name]
	if !ok {
		return fmt.Errorf("%s %s: unit not found", verb, name)
	}

	f.starts++
	f.conf[name] = f.read("/run/loam/current/root/etc/app/a.conf")
	state := unit.State{Name: name, Active: "active", InvocationID: fmt.Sprintf("%032d", f.starts)}
	if strings.Contains(text, "exit 3") {
		state.Active = "failed"
		state.Result = "exit-code"
		state.ExitCode = 3
		f.states[name] = state

		return &unit.JobError{
			Verb:   verb,
			Unit:   name,
			Result: "failed",
			State:  state,
		}
	}

	f.states[name] = state
	return nil
}
