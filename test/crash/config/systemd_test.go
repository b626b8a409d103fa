package config_test

import (
	"context"
	"maps"
	"os"
	"path"
	"strings"
	"sync"

	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/units"
)

// crashSystemd starts units in memory. What a unit runs is its text and
// drop-ins as of the last daemon-reload, with the content of the environment
// files that it finds when it starts.
type crashSystemd struct {
	*units.Fake
	root, image string
	// mark is told of every job before it is done.
	mark func(string)

	// mu is held while a job runs: they come one after the other, as they are
	// recorded.
	mu sync.Mutex
	// jobs counts the jobs and daemon-reloads that were asked for.
	jobs int
	// ran is what each unit was started with last; nil before the machine is up.
	ran map[string]string
}

// crashUnits is what a kill of the agent does not change.
type crashUnits struct {
	memory units.Memory
	ran    map[string]string
}

const unitsDir = "etc/systemd/system"

func newCrashSystemd(root, image string) *crashSystemd {
	s := &crashSystemd{Fake: &units.Fake{Texts: units.Files(root, image)}, root: root, image: image}
	s.Around = s.job
	s.Run = s.run
	return s
}

// job does one thing that systemd is asked for.
func (s *crashSystemd) job(_ context.Context, job units.Job, do func() error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.jobs++
	if s.mark != nil {
		s.mark(job.String())
	}
	return do()
}

// run is every program.
func (s *crashSystemd) run(name, text string) error {
	for line := range strings.Lines(text) {
		if file, is := strings.CutPrefix(strings.TrimSpace(line), "EnvironmentFile="); is {
			text += file + " has " + readAs(s.root, file)
		}
	}
	s.ran[name] = text
	return nil
}

// boot starts the units that links enable.
func (s *crashSystemd) boot() {
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

	var names []string
	for name, target := range enabled {
		if target != os.DevNull {
			names = append(names, name)
		}
	}
	s.ran = map[string]string{}
	_ = s.Boot(names...) // A unit that is not there keeps none from starting.
}

// running returns what the units that are up were started with.
func (u crashUnits) running() map[string]string {
	running := maps.Clone(u.ran)
	maps.DeleteFunc(running, func(name, _ string) bool { return !u.memory.States[name].Running() })
	return running
}

// keep must be called while no job runs.
func (s *crashSystemd) keep() crashUnits { return crashUnits{s.Memory(), maps.Clone(s.ran)} }

// restore brings back what keep has returned.
func (s *crashSystemd) restore(u crashUnits) {
	s.Restore(u.memory)
	s.ran = maps.Clone(u.ran)
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
	file, err := files.Follow(root, name)
	if err != nil {
		return err.Error()
	}
	text, err := os.ReadFile(path.Join(root, file))
	if err != nil {
		return "not there"
	}
	return string(text)
}
