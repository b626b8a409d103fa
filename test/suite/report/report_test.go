package report_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/suite/events"
	"github.com/loam-os/loam/test/suite/report"
)

// read reads recorded streams one after the other.
func read(t *testing.T, names ...string) *events.Log {
	t.Helper()
	var all strings.Builder
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join("../events/testdata", name+".jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}

	log, err := events.Read(strings.NewReader(all.String()))
	if err != nil {
		t.Fatal(err)
	}

	return log
}

var naming = report.Naming{
	Module: "example.com/tiny",
	IsLog: func(pkg, at string) bool {
		return at == "fails_test.go:8"
	},
}

// fourUnsteady is a log of four tests that failed first and passed then.
func fourUnsteady(t *testing.T) *events.Log {
	t.Helper()
	var stream strings.Builder
	for _, name := range []string{"TestA", "TestB", "TestC", "TestD"} {
		for _, action := range []string{"run", "fail", "run", "pass"} {
			stream.WriteString(
				`{"Action":"` + action + `","Package":"p","Test":"` + name + `"}` + "\n")
		}
	}

	log, err := events.Read(strings.NewReader(stream.String()))
	if err != nil {
		t.Fatal(err)
	}

	return log
}

func TestLastLinesOfARun(t *testing.T) {
	style := report.Stage{Name: "style", Took: 41 * time.Second, File: "build/test/style.log"}
	brokenStyle := style
	brokenStyle.Error = "a/b.go:3:4: unreachable code"

	for _, row := range []struct {
		name   string
		stages []report.Stage
		red    bool
		want   string
	}{
		{
			name: "all is well",
			stages: []report.Stage{
				style,
				{
					Name: "packages",
					Took: 65 * time.Second,
					Log:  read(t, "passes", "empty"),
				},
			},
			want: `stage     time  tests  failed  unsteady  skipped
style     41s   -      0       -         -
packages  1m5s  4      0       0         1

3 passed, 0 failed, 1 skipped
`,
		},
		{
			name: "an unsteady test does not make a run red",
			stages: []report.Stage{{
				Name: "packages",
				Log:  read(t, "unsteady"),
				File: "build/test/packages.log",
			}},
			want: `stage     time  tests  failed  unsteady  skipped
packages  0s    3      0       1         0

unsteady  unsteady TestFirstTime/row: unsteady_test.go:15: context deadline exceeded (passed when run again alone)
all output: build/test/packages.log
3 passed, 0 failed, 0 skipped
`,
		},
		{
			name: "all kinds of failures",
			stages: []report.Stage{
				brokenStyle,
				{
					Name:  "packages",
					Error: "exit status 1",
					Log:   read(t, "passes", "fails", "panics", "hangs", "nobuild", "exits"),
					File:  "build/test/packages.log",
				},
				{Name: "machines", LeftOut: "build-cluster"},
			},
			red: true,
			want: `stage     time      tests  failed  unsteady  skipped
style     41s       -      1       -         -
packages  0s        15     6       0         1
machines  left out  -      -       -         -

FAILED    style: a/b.go:3:4: unreachable code
FAILED    fails TestFails: fails_test.go:9: have 1
FAILED    fails TestRows/bad: fails_test.go:16: a bad row
FAILED    panics TestPanics: panic: assignment to entry in nil map [recovered, repanicked]
          testing.tRunner.func1.2({0x55a7a0, 0x6c8c10})
          	testing/testing.go:1974 +0x232
          testing.tRunner.func1()
          	testing/testing.go:1977 +0x349
          panic({0x55a7a0?, 0x6c8c10?})
          	runtime/panic.go:860 +0x13a
          example.com/tiny/panics.TestPanics(0x37e58add4488?)
          	example.com/tiny/panics/panics_test.go:9 +0x28
          testing.tRunner(0x37e58add4488, 0x592e48)
          	testing/testing.go:2036 +0xea
          created by testing.(*T).Run in goroutine 1
          	testing/testing.go:2101 +0x4c5
FAILED    hangs TestHangs/inside: panic: test timed out after 1s
FAILED    nobuild: nobuild/nobuild_test.go:6:2: undefined: undefined
FAILED    exits: the fixture did not stop
left out  machines: build-cluster failed
all output: build/test/style.log build/test/packages.log
8 passed, 7 failed, 1 skipped
`,
		},
		{
			name: "a stage that fails without a failed test",
			stages: []report.Stage{{
				Name:  "packages",
				Error: "exit status 3",
				Log:   read(t, "passes"),
			}},
			red: true,
			want: `stage     time  tests  failed  unsteady  skipped
packages  0s    5      1       0         1

FAILED    packages: exit status 3
3 passed, 1 failed, 1 skipped
`,
		},
		{
			name:   "four unsteady tests",
			stages: []report.Stage{{Name: "packages", Log: fourUnsteady(t)}},
			red:    true,
			want: `stage     time  tests  failed  unsteady  skipped
packages  0s    4      0       4         0

unsteady  p TestA: failed without a message (passed when run again alone)
unsteady  p TestB: failed without a message (passed when run again alone)
unsteady  p TestC: failed without a message (passed when run again alone)
unsteady  p TestD: failed without a message (passed when run again alone)
FAILED    suite: 4 unsteady and 0 failed tests: want at most 3 in all
4 passed, 1 failed, 0 skipped
`,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			var have strings.Builder
			summary := report.Of(row.stages, naming)
			summary.Write(&have)
			if diff := cmp.Diff(row.want, have.String()); diff != "" {
				t.Errorf("-want +have:\n%s", diff)
			}
			if summary.Red() != row.red {
				t.Errorf("red: %v, want %v", summary.Red(), row.red)
			}
		})
	}
}

func TestAPauseOfTheMachineIsNamed(t *testing.T) {
	var have strings.Builder
	began := time.Date(2026, time.November, 30, 21, 18, 7, 0, time.UTC)
	report.Summary{Pauses: []report.Pause{{Began: began, Took: 186 * time.Second}}}.Write(&have)
	want := "\npaused    this machine ran nothing for 3m6s from 21:18:07\n"
	if !strings.Contains(have.String(), want) {
		t.Error(have.String())
	}
}

func TestSlowest(t *testing.T) {
	var have strings.Builder
	report.Slowest(&have, []report.Stage{{Log: read(t, "hangs")}, {Name: "style"}}, naming)
	if !strings.Contains(have.String(), " s  hangs\n") {
		t.Error(have.String())
	}
}

func TestFirstLine(t *testing.T) {
	for _, row := range []struct {
		name   string
		output string
		want   string
	}{
		{
			name:   "vet",
			output: "# example.com/a\n./a.go:3:4: unreachable code\nmake: *** [style] Error 1\n",
			want:   "./a.go:3:4: unreachable code",
		},
		{
			name:   "a build without a network",
			output: "building etcd\nGet \"https://proxy\": no such host\nmake: *** Error 1\n",
			want:   `Get "https://proxy": no such host`,
		},
		{name: "nothing", output: "\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if have := report.FirstLine(row.output); have != row.want {
				t.Errorf("%q, want %q", have, row.want)
			}
		})
	}
}
