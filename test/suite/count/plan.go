// Package count is the pure part of the census of tests: how often the tests of
// which packages run, and the table of what failed.
//
//	Plan --> Job.Command --> go test -json --> events.Read --> Table.Add
package count

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Package is a package and what it and its tests import.
type Package struct {
	Path    string
	Imports []string
}

// Job is the tests of a package, N times.
type Job struct {
	Package string
	N       int
	Timeout time.Duration
	// Parallel is for -parallel, as in the suite; 0 for its default.
	Parallel int
	// Short is set for the tests of `make test`.
	Short bool
}

// stage says how often tests of a kind run.
type stage struct {
	name string
	n    int
	// each is how long all tests of a package may take once.
	each     time.Duration
	parallel int
}

var (
	packages = stage{
		name:     "packages",
		n:        50,
		each:     6 * time.Minute,
		parallel: 4,
	}
	systemd = stage{
		name:     "systemd",
		n:        20,
		each:     10 * time.Minute,
		parallel: 4,
	}
	machines = stage{
		name:     "machines",
		n:        5,
		each:     time.Hour,
		parallel: 2,
	}
)

// stageOf returns the stage of a package. Tests with real systemd or a real
// control plane wait for it.
func stageOf(p Package) stage {
	imports := func(end string) bool {
		return slices.ContainsFunc(p.Imports, func(i string) bool {
			return strings.HasSuffix(i, end)
		})
	}

	switch {
	case strings.HasSuffix(p.Path, "/test/node"):
		return machines
	case imports("/test/container"), imports("/test/cluster/testcluster"):
		return systemd
	default:
		return packages
	}
}

// Plan returns the jobs for the packages: short ones first. It takes packages of
// the stages in only, of all if it is empty, and n in place of the number of
// the stage if it is not 0.
func Plan(all []Package, only []string, n int) ([]Job, error) {
	stages := []stage{packages, systemd, machines}
	for _, name := range only {
		isStage := slices.ContainsFunc(stages, func(s stage) bool { return s.name == name })
		if !isStage {
			return nil, fmt.Errorf("no stage %q: want packages, systemd or machines", name)
		}
	}

	var jobs []Job
	for _, s := range stages {
		if len(only) > 0 && !slices.Contains(only, s.name) {
			continue
		}
		times := s.n
		if n > 0 {
			times = n
		}
		for _, p := range all {
			if stageOf(p).name == s.name {
				jobs = append(jobs, Job{
					Package:  p.Path,
					N:        times,
					Timeout:  s.each * time.Duration(times),
					Parallel: s.parallel,
				})
			}
		}
	}

	return jobs, nil
}

// Command returns the command of a job, for tests that match run, all if it is
// empty.
func (j Job) Command(run string) []string {
	command := []string{
		"go", "test", "-json", "-vet=off", "-shuffle=on",
		fmt.Sprintf("-count=%d", j.N),
		fmt.Sprintf("-timeout=%v", j.Timeout),
	}
	if j.Parallel > 0 {
		command = append(command, fmt.Sprintf("-parallel=%d", j.Parallel))
	}
	if j.Short {
		command = append(command, "-short")
	}
	if run != "" {
		command = append(command, "-run="+run)
	}

	return append(command, j.Package)
}
