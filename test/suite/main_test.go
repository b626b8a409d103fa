package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/suite/report"
	"github.com/loam-os/loam/test/suite/stage"
)

// tests is a stage of the packages of a tiny module.
func tests(name, packages string) stage.Stage {
	return stage.Stage{
		Name:     name,
		Packages: packages,
		Flags:    []string{"-vet=off"},
		Format:   "pkgname",
	}
}

// tiny returns a runner for a copy of the module in testdata.
func tiny(t *testing.T) *runner {
	t.Helper()
	top := t.TempDir()
	err := os.CopyFS(top, os.DirFS("events/testdata/module"))
	if err != nil {
		t.Fatal(err)
	}
	modfile, err := filepath.Abs("../gotestsum/go.mod")
	if err != nil {
		t.Fatal(err)
	}

	t.Setenv("UNSTEADY_MARKER", filepath.Join(top, "marker"))
	return &runner{
		top:     top,
		modfile: modfile,
		grace:   grace,
		out:     t.Output(),
		module:  "example.com/tiny",
		sources: newSources(),
	}
}

// lastLines returns what follows the table of a summary.
func lastLines(s report.Summary) string {
	var all strings.Builder
	s.Write(&all)
	_, after, _ := strings.Cut(all.String(), "\n\n")
	return after
}

func TestLastLinesNameWhatIsBrokenAndWhatIsUnsteady(t *testing.T) {
	groups := []stage.Group{
		{
			{Name: "build", Command: []string{"sh", "-c", "echo no network; exit 3"}},
			{Name: "style", Command: []string{"true"}},
		},
		{{
			Name:     "machines",
			Packages: "./...",
			Needs:    []string{"build"},
		}},
		{tests("broken", "./fails")},
		{tests("nobuild", "./nobuild")},
		{tests("packages", "./unsteady")},
	}
	summary, err := tiny(t).run(t.Context(), groups)
	if err != nil {
		t.Fatal(err)
	}

	const want = `unsteady  unsteady TestFirstTime/row: unsteady_test.go:15: context deadline exceeded (passed when run again alone)
FAILED    build: no network (exit status 3)
FAILED    fails TestFails: fails_test.go:9: have 1
FAILED    fails TestRows/bad: fails_test.go:16: a bad row
FAILED    nobuild: nobuild/nobuild_test.go:6:2: undefined: undefined
FAILED    suite: 1 unsteady and 4 failed tests: want at most 3 in all
left out  machines: build failed
all output: build/test/build.log build/test/broken.log build/test/nobuild.log build/test/packages.log
5 passed, 5 failed, 0 skipped
`
	if diff := cmp.Diff(want, lastLines(summary)); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
}

func TestAStageStartsWhenThoseBeforeItHaveEnded(t *testing.T) {
	r := tiny(t)
	summary, err := r.run(t.Context(), []stage.Group{{
		{
			Name:    "build",
			Env:     []string{"MARKER=built"},
			Command: []string{"sh", "-c", "sleep 0.3; touch $MARKER; exit 1"},
		},
		{
			Name:    "style",
			Command: []string{"test", "-e", "built"},
			After:   []string{"build", "not selected"},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}

	if len(summary.Failed) != 1 || summary.Failed[0].Name != "build" {
		t.Error(lastLines(summary))
	}
}

func TestAPauseIsLongerThanABusyMachineTakes(t *testing.T) {
	last := time.Now()
	for took, want := range map[time.Duration]bool{
		time.Second: false, 5 * time.Second: false, pauseLimit: true, 3 * time.Minute: true,
	} {
		p, ok := pauseBetween(last, last.Add(took))
		if ok != want || p.Took != took || p.Began != last {
			t.Errorf("after %v: %v, %v", took, p, ok)
		}
	}
}

func TestAnUnsteadyTestIsNotRed(t *testing.T) {
	r := tiny(t)
	summary, err := r.run(t.Context(), []stage.Group{{tests("packages", "./unsteady")}})
	if err != nil {
		t.Fatal(err)
	}
	if summary.Red() || len(summary.Unsteady) != 1 {
		t.Error(lastLines(summary))
	}

	text, err := os.ReadFile(filepath.Join(r.top, dir, "slowest.txt"))
	if err != nil || !strings.Contains(string(text), "unsteady TestFirstTime\n") {
		t.Errorf("slowest.txt: %v\n%s", err, text)
	}
}

func TestCensusCountsFailures(t *testing.T) {
	r := tiny(t)
	err := os.MkdirAll(filepath.Join(r.top, dir, "census"), 0o755)
	if err != nil {
		t.Fatal(err)
	}
	patterns := []string{"./passes", "./empty", "./unsteady"}
	jobs, err := r.plan(t.Context(), patterns, "packages", 3)
	if err != nil {
		t.Fatal(err)
	}

	err = r.count(t.Context(), jobs, "Adds|FirstTime")
	if !errors.Is(err, errRed) {
		t.Errorf("%v, want %v", err, errRed)
	}
	text, err := os.ReadFile(filepath.Join(r.top, dir, "census.txt"))
	if err != nil {
		t.Fatal(err)
	}
	have := regexp.MustCompile(`\d{6,}|  +`).ReplaceAllString(string(text), " ")
	want := strings.Join([]string{
		"package test runs failures seed first failure",
		"passes all 3 0   -",
		"unsteady all 3 1   -",
		"unsteady TestFirstTime/row 3 1   unsteady_test.go:15: context deadline exceeded",
		"",
	}, "\n")
	if diff := cmp.Diff(want, have); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
}

func TestLoadEndsWithItsInput(t *testing.T) {
	dir := t.TempDir()
	err := load(strings.NewReader(""), []string{dir})
	if err != nil {
		t.Error(err)
	}
	_, err = os.Stat(filepath.Join(dir, "load"))
	if !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file of the load: %v", err)
	}
}

// canceler ends a context when it is told that a stage is ready.
type canceler struct {
	cancel func()
}

func (c canceler) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "ready") {
		c.cancel()
	}

	return len(p), nil
}

func TestAnInterruptEndsAllProcesses(t *testing.T) {
	r := tiny(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r.out = canceler{cancel: cancel}

	// What a shell starts in the background ignores an interrupt.
	r.grace = 100 * time.Millisecond
	const script = "sleep 600 & echo $! > pid; echo ready; wait"
	summary, err := r.run(ctx, []stage.Group{
		{{Name: "waits", Command: []string{"sh", "-c", script}}},
		{{Name: "later", Command: []string{"true"}}},
	})
	if err != nil {
		t.Fatal(err)
	}

	const want = `FAILED    waits: interrupted; all that it started is ended
all output: build/test/waits.log
0 passed, 1 failed, 0 skipped
`
	if diff := cmp.Diff(want, lastLines(summary)); diff != "" {
		t.Errorf("-want +have:\n%s", diff)
	}
	pid, err := os.ReadFile(filepath.Join(r.top, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	waitForEnd(t, strings.TrimSpace(string(pid)))
}

// waitForEnd waits until a process that was killed is gone.
func waitForEnd(t *testing.T, pid string) {
	t.Helper()
	number, err := strconv.Atoi(pid)
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(number, 0)
	if errors.Is(err, unix.ESRCH) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)

	// A pidfd is readable when its process has ended (pidfd_open(2)).
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(poll, 60_000)
	if n != 1 {
		t.Errorf("process %s still runs: %v", pid, err)
	}
}

func TestPrefixed(t *testing.T) {
	var have strings.Builder
	p := &prefixed{w: &have, prefix: "style: "}
	for _, text := range []string{"a", "b\n\nc\nd"} {
		_, err := p.Write([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
	}
	p.flush()

	if diff := cmp.Diff("style: ab\nstyle: c\nstyle: d\n", have.String()); diff != "" {
		t.Error(diff)
	}
}
