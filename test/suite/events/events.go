// Package events reads what `go test -json` writes, and says which tests
// failed and why.
//
//	go test -json --> Read --> Log --> Failures, Counts, Slowest
//
// The format is the one of `go doc test2json`, with the build events of `go
// help buildjson`. A test may run more than once in a log: gotestsum runs a
// failed test again, and -count=N runs each test N times.
package events

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"
)

// Outcome is how a run of a test or of a package ended.
type Outcome string

const (
	// Unfinished is the outcome of a test that still ran when its package
	// ended.
	Unfinished Outcome = ""
	Passed     Outcome = "pass"
	Failed     Outcome = "fail"
	Skipped    Outcome = "skip"
)

// Run is one run of a test or of a package.
type Run struct {
	Outcome Outcome
	// Elapsed is without what the test says it waited for others to end, by an
	// attribute "waited" (testing.TB.Attr).
	Elapsed time.Duration
	waited  time.Duration
	// Output has the lines that it printed, without line ends. It is nil for a
	// test that passed.
	Output []string
}

// Test is a test or a subtest.
type Test struct {
	Name string
	Runs []Run
}

// Package is a package and its tests, in the order in which they first ran.
type Package struct {
	Name  string
	Tests []*Test
	Runs  []PackageRun
}

// PackageRun is one run of a package. Its output is what no test printed.
type PackageRun struct {
	Run
	// Cached is set if go test took the result from its cache.
	Cached bool
	// TestFailed is set if a test failed in this run.
	TestFailed bool
	// Seed is the seed of -shuffle, empty without it.
	Seed string
	// Unfinished has the tests that ran when the package ended.
	Unfinished []string
	// Build has what the compiler printed, if the package did not build.
	Build []string
}

// Log is all that happened, in the order in which packages started.
type Log struct {
	Packages []*Package
}

// event is a TestEvent of `go doc test2json`, or a BuildEvent of `go help
// buildjson`.
type event struct {
	Action      string
	Package     string
	Test        string
	Elapsed     float64
	Output      string
	FailedBuild string
	ImportPath  string
	Key, Value  string
}

// reader is a log that is being read.
type reader struct {
	log      Log
	packages map[string]*Package
	tests    map[testKey]*Test
	builds   map[string][]string
}

type testKey struct {
	pkg  string
	test string
}

// Read reads events until the end of r. It leaves out lines that are no events:
// a process that was killed leaves half a line.
func Read(r io.Reader) (*Log, error) {
	state := reader{
		packages: map[string]*Package{},
		tests:    map[testKey]*Test{},
		builds:   map[string][]string{},
	}

	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if json.Unmarshal(line, &e) == nil {
			state.add(e)
		}
		if errors.Is(err, io.EOF) {
			return &state.log, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (r *reader) add(e event) {
	switch {
	case e.Action == "build-output":
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], lines(e.Output)...)
	case e.Package == "":
	case e.Test == "":
		r.addToPackage(r.pkg(e.Package), e)
	default:
		r.addToTest(r.pkg(e.Package), e)
	}
}

func (r *reader) addToPackage(p *Package, e event) {
	if e.Action == "start" || len(p.Runs) == 0 {
		p.Runs = append(p.Runs, PackageRun{})
	}
	run := &p.Runs[len(p.Runs)-1]

	switch e.Action {
	case "output":
		run.Output = append(run.Output, lines(e.Output)...)
		seed, isSeed := strings.CutPrefix(strings.TrimSpace(e.Output), "-test.shuffle ")
		if isSeed {
			run.Seed = seed
		}
		if strings.HasSuffix(strings.TrimSpace(e.Output), "\t(cached)") {
			run.Cached = true
		}
	case "pass", "fail", "skip":
		run.Outcome = Outcome(e.Action)
		run.Elapsed = seconds(e.Elapsed)
		run.Build = r.builds[e.FailedBuild]
		run.Unfinished = unfinished(p)
	}
}

// unfinished returns the tests of a package that have not ended.
func unfinished(p *Package) []string {
	var names []string
	for _, test := range p.Tests {
		if test.Runs[len(test.Runs)-1].Outcome == Unfinished {
			names = append(names, test.Name)
		}
	}

	return names
}

func (r *reader) addToTest(p *Package, e event) {
	key := testKey{pkg: e.Package, test: e.Test}
	test, known := r.tests[key]
	if !known {
		test = &Test{Name: e.Test}
		r.tests[key] = test
		p.Tests = append(p.Tests, test)
	}
	if e.Action == "run" || len(test.Runs) == 0 {
		test.Runs = append(test.Runs, Run{})
	}
	run := &test.Runs[len(test.Runs)-1]

	switch e.Action {
	case "output":
		run.Output = append(run.Output, lines(e.Output)...)
	case "attr":
		if e.Key == "waited" {
			// Best effort: what is no duration counts as none.
			run.waited, _ = time.ParseDuration(e.Value)
		}
	case "pass", "fail", "skip":
		run.Outcome = Outcome(e.Action)
		run.Elapsed = max(0, seconds(e.Elapsed)-run.waited)
	}
	switch {
	case run.Outcome == Passed:
		run.Output = nil
	case run.Outcome == Failed && len(p.Runs) > 0:
		p.Runs[len(p.Runs)-1].TestFailed = true
	}
}

func (r *reader) pkg(name string) *Package {
	p, known := r.packages[name]
	if !known {
		p = &Package{Name: name}
		r.packages[name] = p
		r.log.Packages = append(r.log.Packages, p)
	}

	return p
}

func lines(output string) []string {
	return strings.Split(strings.TrimSuffix(output, "\n"), "\n")
}

func seconds(s float64) time.Duration {
	return time.Duration(s * float64(time.Second))
}
