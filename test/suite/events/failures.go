package events

import (
	"regexp"
	"slices"
	"strings"
)

// Failure is a test that failed at least once, or a package that failed without
// a failed test.
type Failure struct {
	Package string
	// Test is empty if the package failed by itself: it did not build, or
	// its process ended with an error.
	Test string
	// Line says why: FILE:LINE: MESSAGE of the test, the first line of a
	// panic, or the first error of the compiler.
	Line string
	// Trace has the stack of the goroutine that panicked, as Go prints it. It is
	// nil without a panic, and after a timeout, whose goroutine is no test's.
	Trace []string
	// Unsteady is set if the test passed when it ran again.
	Unsteady bool
}

// Root returns the name of the test without subtests.
func (f Failure) Root() string {
	return root(f.Test)
}

// IsLog reports whether a line of a package's source, such as unit_test.go:12,
// only logs. The output of a test does not tell a log from an error.
type IsLog func(pkg, at string) bool

// Failures returns what failed, in the order of the log. For a test whose
// subtests failed it returns the subtests only, unless it has an error of its
// own.
func (l *Log) Failures(isLog IsLog) []Failure {
	var found []Failure
	for _, p := range l.Packages {
		found = append(found, p.failures(isLog)...)
	}

	return found
}

func (p *Package) failures(isLog IsLog) []Failure {
	var found []Failure
	for _, test := range p.Tests {
		run, hasFailed := test.firstFailure()
		if !hasFailed {
			continue
		}
		line := firstLine(run.Output, func(at string) bool { return isLog(p.Name, at) })
		if line == "" && p.hasFailedSubtest(test.Name) {
			continue
		}
		found = append(found, Failure{
			Package:  p.Name,
			Test:     test.Name,
			Line:     line,
			Trace:    traceOf(run.Output),
			Unsteady: p.passedAgain(root(test.Name)),
		})
	}

	for _, run := range p.Runs {
		if run.Outcome == Failed && !run.TestFailed {
			return append(found, p.ownFailures(run)...)
		}
	}

	return found
}

// ownFailures returns what a run of a package has that failed without a failed
// test. After a timeout these are the tests that ran.
func (p *Package) ownFailures(run PackageRun) []Failure {
	whole := Failure{Package: p.Name, Line: ownLine(run), Trace: traceOf(run.Output)}
	if len(run.Unfinished) == 0 {
		return []Failure{whole}
	}

	line, running, trace := p.panicOf(run)
	if line != "" {
		whole.Line, whole.Trace = line, trace
	}
	names := leaves(run.Unfinished)
	switch {
	case line != "" && len(running) > 0:
		names = leaves(running)
	case line == "" || len(names) > 1:
		whole.Line += " (while these ran: " + strings.Join(names, ", ") + ")"
		return []Failure{whole}
	}

	var found []Failure
	for _, name := range names {
		found = append(found, Failure{
			Package: p.Name,
			Test:    name,
			Line:    line,
			Trace:   trace,
		})
	}

	return found
}

// panicOf returns the first line of the panic that ended a run, the tests that it
// names as running, and its trace. test2json attributes it to any test that ran.
func (p *Package) panicOf(run PackageRun) (line string, running, trace []string) {
	for _, test := range p.Tests {
		if !slices.Contains(run.Unfinished, test.Name) {
			continue
		}
		output := test.Runs[len(test.Runs)-1].Output
		at := slices.IndexFunc(output, isPanic)
		if at < 0 {
			continue
		}

		for _, text := range output[at:] {
			match := runningTest.FindStringSubmatch(text)
			if match != nil {
				running = append(running, match[1])
			}
		}
		return output[at], running, traceOf(output)
	}

	at := slices.IndexFunc(run.Output, isPanic)
	if at < 0 {
		return "", nil, nil
	}
	return run.Output[at], nil, traceOf(run.Output)
}

// firstFailure returns the first run that failed.
func (t *Test) firstFailure() (Run, bool) {
	at := slices.IndexFunc(t.Runs, func(r Run) bool { return r.Outcome == Failed })
	if at < 0 {
		return Run{}, false
	}

	return t.Runs[at], true
}

func (p *Package) hasFailedSubtest(name string) bool {
	return slices.ContainsFunc(p.Tests, func(t *Test) bool {
		_, hasFailed := t.firstFailure()
		return hasFailed && strings.HasPrefix(t.Name, name+"/")
	})
}

// passedAgain reports whether the last run of a test passed.
func (p *Package) passedAgain(name string) bool {
	return slices.ContainsFunc(p.Tests, func(t *Test) bool {
		return t.Name == name && t.Runs[len(t.Runs)-1].Outcome == Passed
	})
}

// leaves returns the names without those that have a subtest among them.
func leaves(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool {
			return strings.HasPrefix(other, name+"/")
		})
	})
}

func root(test string) string {
	name, _, _ := strings.Cut(test, "/")
	return name
}

var (
	// position is a line that a test prints with t.Error or t.Log.
	position = regexp.MustCompile(`^\s+([^\s:]+\.go:\d+): `)
	// compilerError is a line such as unit/unit.go:3:2: undefined: x.
	compilerError = regexp.MustCompile(`^\S+\.go:\d+(:\d+)?: `)
	// runningTest is a line of the panic of a timeout.
	runningTest = regexp.MustCompile(`^\t\t(\S+) \(\S+\)$`)
	// goroutine begins the stack of the one that panicked.
	goroutine = regexp.MustCompile(`^goroutine \d+ .*\[.*\]:$`)
	// frame is a line that go test prints around the output of tests.
	frame = regexp.MustCompile(`^(PASS|FAIL|ok|exit status .*|=== .*|\s*--- .*|-test\.shuffle .*)?(\t.*)?$`)
)

func isPanic(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")
}

// traceOf returns the stack that follows a panic in the output of a test: the lines
// after "goroutine N [running]:" until an empty one. There is none after a timeout.
func traceOf(output []string) []string {
	at := slices.IndexFunc(output, isPanic)
	if at < 0 || slices.ContainsFunc(output[at:], runningTest.MatchString) {
		return nil
	}
	start := slices.IndexFunc(output[at:], goroutine.MatchString)
	if start < 0 {
		return nil
	}

	stack := output[at+start+1:]
	end := slices.Index(stack, "")
	if end < 0 {
		end = len(stack)
	}
	return stack[:end:end]
}

// firstLine returns the line that says why a test failed: its panic, or its
// first line with a position that is no log. The last log is better than
// nothing, as a helper may print with t.Log and fail.
func firstLine(output []string, isLog func(at string) bool) string {
	at := slices.IndexFunc(output, isPanic)
	if at >= 0 {
		return output[at]
	}

	var log string
	for _, line := range output {
		match := position.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		log = strings.TrimSpace(line)
		if !isLog(match[1]) {
			return log
		}
	}

	return log
}

// ownLine returns the line that says why a package failed by itself.
func ownLine(run PackageRun) string {
	for _, line := range slices.Concat(run.Build, run.Output) {
		if compilerError.MatchString(line) || isPanic(line) {
			return line
		}
	}
	for _, line := range slices.Concat(run.Build, run.Output) {
		if !frame.MatchString(line) {
			return strings.TrimSpace(line)
		}
	}

	return "failed without a failed test"
}
