package config_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/loam-os/loam/agent/unit"
)

// crashSystemd starts units in memory. What a unit runs is its text and
// drop-ins as of the last reload, with the content of the environment files
// that it finds when it starts.
type crashSystemd struct {
	root, image string
	// mark is told of every job before it is done.
	mark    func(string)
	mu      sync.Mutex
	loaded  map[string]string
	running map[string]string
	// jobs counts the jobs and reloads that were asked for.
	jobs int
}

// crashUnits is what a kill of the agent does not change.
type crashUnits struct{ loaded, running map[string]string }

const unitsDir = "etc/systemd/system"

// boot starts the units that links enable.
func (s *crashSystemd) boot() {
	s.running = map[string]string{}
	s.load()
	enabled := map[string]string{}
	for _, dir := range []string{s.image + "/usr/lib/systemd/system", s.root + "/" + unitsDir} {
		for _, wants := range list(dir) {
			if path.Ext(wants) != ".wants" {
				continue
			}
			for _, name := range list(path.Join(dir, wants)) {
				enabled[name], _ = os.Readlink(path.Join(dir, wants, name))
			}
		}
	}

	for name, target := range enabled {
		if target != os.DevNull {
			_ = s.start(name)
		}
	}
}

func (s *crashSystemd) load() {
	s.loaded = map[string]string{}

	for _, root := range []string{s.image, s.root} {
		dir := "usr/lib/systemd/system"
		if root == s.root {
			dir = unitsDir
		}
		names := list(path.Join(root, dir))
		for _, name := range names {
			if path.Ext(name) == ".service" {
				s.loaded[name] = readAs(root, path.Join(dir, name))
			}
		}
		for _, name := range names {
			for _, in := range list(path.Join(root, dir, name)) {
				if path.Ext(in) == ".conf" {
					s.loaded[strings.TrimSuffix(name, ".d")] += readAs(
						root,
						path.Join(dir, name, in),
					)
				}
			}
		}
	}
}

func list(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// readAs reads what a program whose root directory is root finds there.
func readAs(root, name string) string {
	file, err := follow(root, name)
	if err != nil {
		return err.Error()
	}
	text, err := os.ReadFile(path.Join(root, file))
	if err != nil {
		return "not there"
	}
	return string(text)
}

// follow is where name leads beneath root, whose links may be absolute.
func follow(root, name string) (string, error) {
	done, rest := "", strings.Split(strings.Trim(name, "/"), "/")
	for links := 0; len(rest) > 0; {
		next := path.Join(done, rest[0])
		rest = rest[1:]
		target, err := os.Readlink(path.Join(root, next))
		if err != nil {
			done = next
			continue
		}
		if links++; links > 40 {
			return "", fmt.Errorf("follow %s: too many links", name)
		}
		if path.IsAbs(target) {
			done = ""
		}
		rest = append(strings.Split(strings.Trim(target, "/"), "/"), rest...)
	}

	return done, nil
}

func (s *crashSystemd) start(name string) error {
	text, ok := s.loaded[name]
	if !ok {
		return fmt.Errorf("start %s: unit not found", name)
	}
	for line := range strings.Lines(text) {
		if file, is := strings.CutPrefix(strings.TrimSpace(line), "EnvironmentFile="); is {
			text += file + " has " + readAs(s.root, file)
		}
	}
	s.running[name] = text
	return nil
}

// job does one thing that systemd is asked for.
func (s *crashSystemd) job(what string, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs++
	if s.mark != nil {
		s.mark(what)
	}
	return do()
}

func (s *crashSystemd) Reload(context.Context) error {
	return s.job("reload", func() error { s.load(); return nil })
}

func (s *crashSystemd) Start(_ context.Context, name string) error {
	return s.job("start "+name, func() error {
		if _, up := s.running[name]; up {
			return nil
		}
		return s.start(name)
	})
}

func (s *crashSystemd) Stop(_ context.Context, name string) error {
	return s.job("stop "+name, func() error { delete(s.running, name); return nil })
}

func (s *crashSystemd) Restart(_ context.Context, name string) error {
	return s.job("restart "+name, func() error { return s.start(name) })
}

func (s *crashSystemd) ReloadUnit(_ context.Context, name string) error {
	return s.job("reload "+name, func() error { return s.start(name) })
}

func (s *crashSystemd) ResetFailed(context.Context, string) {}

func (s *crashSystemd) Show(_ context.Context, names []string) ([]unit.State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var states []unit.State
	for _, name := range names {
		state := unit.State{Name: name, Active: "inactive"}
		if _, up := s.running[name]; up {
			state.Active = "active"
		}
		states = append(states, state)
	}
	return states, nil
}

// keep must be called while no job runs.
func (s *crashSystemd) keep() crashUnits {
	return crashUnits{maps.Clone(s.loaded), maps.Clone(s.running)}
}
