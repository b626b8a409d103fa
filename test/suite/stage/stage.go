// Package stage is the table of what the suite of tests runs, and in which
// order. It is pure: it decides, and package main carries out.
package stage

import (
	"fmt"
	"slices"
	"strings"
)

// Stage is a part of the suite: a command, or the tests of packages.
type Stage struct {
	Name string
	// Command is empty for tests.
	Command []string
	// Env is what the environment has besides, as KEY=VALUE.
	Env []string
	// Dir is where the stage runs, relative to the top of the tree.
	Dir string
	// Packages is what `go list` lists, for tests.
	Packages string
	// Except is the end of the import path of packages that are left out.
	Except string
	// Waiting are the ends of the import paths of packages whose tests wait more
	// than they compute. They begin first.
	Waiting []string
	// Flags are for go test.
	Flags []string
	// ShortFlags come after Flags in the short suite.
	ShortFlags []string
	// Format is how gotestsum prints progress.
	Format string
	// After are stages of the same group that end, well or not, before this one starts.
	After []string
	// Needs are stages without which this one is left out.
	Needs []string
	// Judges is set for tests that use what the stage images makes.
	Judges bool
	// Full is set for a stage that is not in the short suite.
	Full bool
}

// Group is stages that run side by side. Of those with tests, at most one
// computes: beside another, tests would be slow, and fail by their timeouts.
type Group []Stage

const (
	// perPackage prints a line for each package, and what failed.
	perPackage = "pkgname-and-test-fails"
	// perTest prints a line for each test.
	perTest = "testname"
)

// Suite is all stages, in order.
func Suite() []Group {
	// A compiler that collects no garbage takes a fifth less, and seldom needs a gigabyte.
	compiles := []string{"GOGC=off", "GOMEMLIMIT=2GiB"}

	return []Group{
		// What compiles the same packages runs one after the other: side by side, each
		// would compile them. Images wait for packages of Debian, and a build of one
		// program for its last step; so two run at a time.
		{
			{
				Name:    "build-loamctl",
				Env:     compiles,
				Command: []string{"make", "--no-print-directory", "build/loamctl"},
			},
			{
				Name:    "images",
				Env:     compiles,
				Command: []string{"make", "--no-print-directory", "images"},
				After:   []string{"build-loamctl"},
			},
			{
				Name:    "style",
				Env:     compiles,
				Command: []string{"make", "--no-print-directory", "style"},
				After:   []string{"build-loamctl"},
			},
			// One program of each module that the short suite needs.
			{
				Name: "build-cluster",
				Env:  compiles,
				Command: []string{"go", "run", "./test/cluster/build",
					"etcd", "registry", "kubelet"},
				After: []string{"style"},
			},
			{
				Name:    "style-extension",
				Env:     compiles,
				Dir:     "cmd/gardener-extension-os-loam",
				Command: []string{"go", "vet", "./..."},
				After:   []string{"images"},
			},
		},
		{{
			Name:    "build-bundle",
			Env:     compiles,
			Full:    true,
			Command: []string{"go", "run", "./test/cluster/build"},
		}},
		{{
			Name:    "build-earlier",
			Env:     compiles,
			Full:    true,
			Command: []string{"go", "run", "./test/cluster/build", "etcd-3.6", "kubelet-1.36"},
		}},
		{{
			Name:    "build-conformance",
			Env:     compiles,
			Full:    true,
			Command: []string{"go", "run", "./test/cluster/build", "conformance"},
		}},
		{{
			Name:    "build-shoot",
			Env:     compiles,
			Full:    true,
			Command: []string{"go", "run", "./test/shoot/build"},
		}},
		// Packages wait, too, for systemd and for QEMU: in the short suite, four at a
		// time keep two processors busy. Tests are parallel where they wait, for their
		// own control plane or systemd. What only the full suite has computes: with
		// four at a time, units of real systemd did not start in a minute.
		{
			{
				Name:     "packages",
				Packages: "./...",
				Except:   "/test/node",
				Waiting:  []string{"/agent", "/agent/networkd", "/agent/volume", "/test/crash/rollout"},
				Flags:    []string{"-vet=off", "-p", "2", "-parallel", "4", "-timeout", "2h"},

				ShortFlags: []string{"-p", "4", "-timeout", "40m"},

				Format: perPackage,
				Needs: []string{
					"images", "build-cluster", "build-bundle", "build-earlier", "build-conformance",
					"build-shoot",
				},
				Judges: true,
			},
			// The extension for Gardener is a module of its own, as it depends on
			// Gardener.
			{
				Name:     "extension",
				Dir:      "cmd/gardener-extension-os-loam",
				Packages: "./...",
				Flags:    []string{"-vet=off"},
				Format:   perPackage,
			},
			// What is compared with kubectl's own code is a module of its own, too: with
			// empty caches, it takes minutes to build.
			{
				Name:     "kubectl",
				Full:     true,
				Dir:      "test/kubectl",
				Packages: ".",
				Flags:    []string{"-vet=off"},
				Format:   perPackage,
			},
		},
		// A race that a second run does not find is a race all the same, so this
		// is a command: none of its tests runs again.
		{{
			Name:    "race",
			Full:    true,
			Command: []string{"make", "--no-print-directory", "race"},
			Needs:   []string{"images", "build-cluster"},
		}},
		// Machines are tested when nothing else runs: while one waits for its
		// disk, a trial or a window, the others have the processors. In the short
		// suite they have one processor each.
		{{
			Name:       "machines",
			Packages:   "./test/node",
			Flags:      []string{"-vet=off", "-parallel", "2", "-timeout", "2h"},
			ShortFlags: []string{"-parallel", "3", "-timeout", "1h"},
			Format:     perTest,
			Needs: []string{
				"images", "build-cluster", "build-bundle", "build-conformance", "build-shoot",
			},
			Judges: true,
		}},
	}
}

// Select returns the stages of the short or the full suite; only those whose
// names are in only and what they need, if it has any. A stage that is named
// is in the short suite, too.
func Select(groups []Group, short bool, only []string) ([]Group, error) {
	for _, name := range only {
		if !slices.Contains(names(groups), name) {
			return nil, fmt.Errorf("no stage %q: the stages are %s", name,
				strings.Join(names(groups), ", "))
		}
	}

	var needed []string
	for _, group := range groups {
		for _, s := range group {
			if slices.Contains(only, s.Name) {
				needed = append(needed, s.Needs...)
			}
		}
	}

	var selected []Group
	for _, group := range groups {
		var some Group
		for _, s := range group {
			isNamed := slices.Contains(only, s.Name)
			isWanted := len(only) == 0 || slices.Contains(needed, s.Name)
			if isNamed || (isWanted && !(short && s.Full)) {
				some = append(some, s)
			}
		}
		if len(some) > 0 {
			selected = append(selected, some)
		}
	}

	return selected, nil
}

func names(groups []Group) []string {
	var all []string
	for _, group := range groups {
		for _, s := range group {
			all = append(all, s.Name)
		}
	}

	return all
}

// Missing returns the first stage that s needs and that failed, empty if there
// is none.
func (s Stage) Missing(failed []string) string {
	for _, name := range s.Needs {
		if slices.Contains(failed, name) {
			return name
		}
	}

	return ""
}

// IsTests reports whether the stage is tests and not a command.
func (s Stage) IsTests() bool {
	return len(s.Command) == 0
}

// Keep returns the packages without those that the stage leaves out, in the order
// in which go test begins with them: those that wait, then the last one first, as
// those below test take longest. At the end, one of them would run for minutes on
// its own.
func (s Stage) Keep(packages []string) []string {
	kept := slices.DeleteFunc(slices.Clone(packages), func(p string) bool {
		return s.Except != "" && strings.HasSuffix(p, s.Except)
	})
	slices.Reverse(kept)
	slices.SortStableFunc(kept, func(a, b string) int { return s.turn(a) - s.turn(b) })
	return kept
}

// turn is 0 for a package that waits, and 1 for the others.
func (s Stage) turn(pkg string) int {
	waits := slices.ContainsFunc(s.Waiting, func(end string) bool {
		return strings.HasSuffix(pkg, end)
	})
	if waits {
		return 0
	}
	return 1
}

// Tests is what a command for tests is made of.
type Tests struct {
	// Judges is the shell script that says where the images and judges are.
	Judges string
	// Modfile is the go.mod with gotestsum.
	Modfile string
	// Events is the file for the events.
	Events   string
	Packages []string
	Short    bool
}

// MaxFailures is the number of failed tests of a stage, and of failed and
// unsteady tests of a run, up to which the machine may be the reason.
const MaxFailures = 3

// TestCommand returns the command that runs tests. A test that fails runs once
// more, alone and with all of its subtests, unless too many failed.
func (s Stage) TestCommand(t Tests) []string {
	command := []string{
		"go", "tool", "-modfile=" + t.Modfile, "gotestsum",
		"--format", s.Format,
		"--format-icons", "text",
		"--hide-summary", "skipped",
		"--jsonfile", t.Events,
		"--rerun-fails=1",
		fmt.Sprintf("--rerun-fails-max-failures=%d", MaxFailures),
		"--rerun-fails-run-root-test",
		"--packages=" + strings.Join(t.Packages, " "),
		"--",
	}
	command = append(command, s.Flags...)
	if t.Short {
		command = append(command, "-short")
		command = append(command, s.ShortFlags...)
	}
	if s.Judges {
		return append([]string{"sh", "-c", `. "$0" && exec "$@"`, t.Judges}, command...)
	}

	return command
}
