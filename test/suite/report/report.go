// Package report says how a run of the suite of tests went, so that its last
// lines tell what is broken.
package report

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/loam-os/loam/test/suite/events"
	"github.com/loam-os/loam/test/suite/stage"
)

// Stage is how a stage went.
type Stage struct {
	Name string
	Took time.Duration
	// Error says why the command failed, empty if it did not.
	Error string
	// LeftOut is the stage whose failure kept this one from running.
	LeftOut string
	// Log is nil for a stage without tests.
	Log *events.Log
	// File has the output of the stage.
	File string
}

// Line is a thing that is broken or unsteady.
type Line struct {
	// Name is a package and a test, or a stage.
	Name string
	Why  string
	// Trace is where it panicked, nil if it did not.
	Trace []string
}

// Pause is a time in which the machine ran nothing: the times of tests have it, too, and
// a test may have failed by it.
type Pause struct {
	Began time.Time
	Took  time.Duration
}

// Summary is how a run went.
type Summary struct {
	Pauses   []Pause
	Failed   []Line
	Unsteady []Line
	Passed   int
	Skipped  int

	stages []row
	files  []string
}

// row is a line of the table of stages.
type row struct {
	stage    Stage
	counts   events.Counts
	failed   int
	unsteady int
}

// Naming says what Of needs to know about packages.
type Naming struct {
	// Module is the path of the main module, which names are printed without.
	Module string
	// IsLog tells lines that log from lines that fail.
	IsLog events.IsLog
}

// Of judges the stages of a run.
func Of(stages []Stage, naming Naming) Summary {
	var s Summary
	unsteadyTests := 0
	for _, st := range stages {
		r := row{stage: st}
		if st.Log != nil {
			r.counts = st.Log.Counts()
			unsteady := map[string]bool{}
			for _, f := range st.Log.Failures(naming.IsLog) {
				line := Line{Name: naming.name(f), Why: why(f), Trace: f.Trace}
				if f.Unsteady {
					s.Unsteady = append(s.Unsteady, line)
					unsteady[f.Package+" "+f.Root()] = true
				} else {
					s.Failed = append(s.Failed, line)
					r.failed++
				}
			}
			r.unsteady = len(unsteady)
		}
		if st.Error != "" && r.failed == 0 {
			s.Failed = append(s.Failed, Line{Name: st.Name, Why: st.Error})
			r.failed++
		}
		if st.File != "" && r.failed+r.unsteady > 0 {
			s.files = append(s.files, st.File)
		}

		unsteadyTests += r.unsteady
		s.Passed += r.counts.Passed
		s.Skipped += r.counts.Skipped
		s.stages = append(s.stages, r)
	}

	if unsteadyTests > 0 && unsteadyTests+len(s.Failed) > stage.MaxFailures {
		s.Failed = append(s.Failed, Line{
			Name: "suite",
			Why: fmt.Sprintf("%d unsteady and %d failed tests: want at most %d in all",
				unsteadyTests, len(s.Failed), stage.MaxFailures),
		})
	}

	return s
}

// Red reports whether something is broken.
func (s Summary) Red() bool {
	return len(s.Failed) > 0
}

func (n Naming) name(f events.Failure) string {
	name := strings.TrimPrefix(f.Package, n.Module+"/")
	if f.Test == "" {
		return name
	}

	return name + " " + f.Test
}

// maxLine is the number of characters of a message that are printed.
const maxLine = 300

func why(f events.Failure) string {
	text := []rune(f.Line)
	switch {
	case len(text) == 0:
		return "failed without a message"
	case len(text) > maxLine:
		return string(text[:maxLine]) + "…"
	}

	return f.Line
}

// Write writes the table of the stages, then all that failed or is unsteady,
// and the numbers of tests as the last line.
func (s Summary) Write(w io.Writer) {
	s.writeTable(w)
	fmt.Fprintln(w)
	for _, p := range s.Pauses {
		fmt.Fprintf(w, "paused    this machine ran nothing for %v from %s\n",
			p.Took.Round(time.Second), p.Began.Format(time.TimeOnly))
	}
	for _, line := range s.Unsteady {
		fmt.Fprintf(w, "unsteady  %s: %s (passed when run again alone)\n", line.Name, line.Why)
		line.writeTrace(w)
	}
	for _, line := range s.Failed {
		fmt.Fprintf(w, "FAILED    %s: %s\n", line.Name, line.Why)
		line.writeTrace(w)
	}
	for _, r := range s.stages {
		if r.stage.LeftOut != "" {
			fmt.Fprintf(w, "left out  %s: %s failed\n", r.stage.Name, r.stage.LeftOut)
		}
	}
	if len(s.files) > 0 {
		fmt.Fprintf(w, "all output: %s\n", strings.Join(s.files, " "))
	}
	fmt.Fprintf(w, "%d passed, %d failed, %d skipped\n", s.Passed, len(s.Failed), s.Skipped)
}

// maxTrace is the number of lines of a trace that are printed.
const maxTrace = 30

func (l Line) writeTrace(w io.Writer) {
	for _, text := range l.Trace[:min(maxTrace, len(l.Trace))] {
		fmt.Fprintf(w, "          %s\n", text)
	}
}

func (s Summary) writeTable(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer table.Flush()

	fmt.Fprintln(table, "stage\ttime\ttests\tfailed\tunsteady\tskipped")
	for _, r := range s.stages {
		took := r.stage.Took.Round(time.Second)
		switch {
		case r.stage.LeftOut != "":
			fmt.Fprintf(table, "%s\tleft out\t-\t-\t-\t-\n", r.stage.Name)
		case r.stage.Log == nil:
			fmt.Fprintf(table, "%s\t%v\t-\t%d\t-\t-\n", r.stage.Name, took, r.failed)
		default:
			tests := r.counts.Passed + r.counts.Skipped + r.failed
			fmt.Fprintf(table, "%s\t%v\t%d\t%d\t%d\t%d\n", r.stage.Name, took, tests, r.failed,
				r.unsteady, r.counts.Skipped)
		}
	}
}

// slowest is how many tests and packages Slowest prints.
const slowest = 10

// Slowest writes the tests and the packages that took the longest.
func Slowest(w io.Writer, stages []Stage, naming Naming) {
	var packages, tests []events.Timing
	for _, st := range stages {
		if st.Log == nil {
			continue
		}
		p, t := st.Log.Timings()
		packages = append(packages, p...)
		tests = append(tests, t...)
	}

	fmt.Fprintln(w, "slowest tests")
	naming.writeTimings(w, events.Slowest(tests, slowest))
	fmt.Fprintln(w, "\nslowest packages")
	naming.writeTimings(w, events.Slowest(packages, slowest))
}

func (n Naming) writeTimings(w io.Writer, timings []events.Timing) {
	for _, t := range timings {
		name := n.name(events.Failure{Package: t.Package, Test: t.Test})
		fmt.Fprintf(w, "%8.1f s  %s\n", t.Took.Seconds(), name)
	}
}

// FirstLine returns the line of a command's output that says why it failed: the
// first with a position in a Go file, or the last one that is not make's.
func FirstLine(output string) string {
	var last string
	for line := range strings.Lines(output) {
		line = strings.TrimSpace(line)
		if strings.Contains(line, ".go:") {
			return line
		}
		if line != "" && !strings.HasPrefix(line, "make") {
			last = line
		}
	}

	return last
}
