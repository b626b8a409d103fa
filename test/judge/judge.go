// Package judge runs real tools that tests trust more than our own code. `make
// test` puts the tools tree first in PATH.
package judge

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
)

// Lacking ends a test that cannot run here: it skips by default, and fails
// where CI is set.
func Lacking(t testing.TB, what any) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// Long leaves a test to `make test-all`: it skips it in short mode, in which
// `make test` runs. instead names what shows the same in short mode.
func Long(t testing.TB, instead string) {
	t.Helper()
	if testing.Short() {
		t.Skip("not in short mode: make test-all runs it; instead: " + instead)
	}
}

// Pick returns full, or short in short mode: the size of a test whose smaller
// size shows the same, less thoroughly.
func Pick[T any](short, full T) T {
	if testing.Short() {
		return short
	}
	return full
}

// InCheck reports whether `make check` runs, which has a minute for everything
// and no programs of others: short mode where CI is not set.
func InCheck() bool {
	return testing.Short() && os.Getenv("CI") == ""
}

// PickOf is Pick with a third size, for `make check`: of tests that compute for
// long.
func PickOf[T any](check, short, full T) T {
	if InCheck() {
		return check
	}
	return Pick(short, full)
}

// Find returns the path of the tool name. A missing tool is Lacking.
func Find(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		Lacking(t, err)
	}
	return path
}

// systemd is the oldest version of systemd that judges: that of the image. An
// older one, such as that of the machine on which tests run, knows other
// directives.
const systemd = 257

// Systemd returns the path of a tool of systemd. An older one than the image has
// is Lacking.
func Systemd(t testing.TB, name string) string {
	t.Helper()
	path := Find(t, name)
	var version int
	out, err := exec.Command(path, "--version").Output()
	if err == nil {
		_, err = fmt.Sscanf(string(out), "systemd %d", &version)
	}
	if err != nil {
		t.Fatalf("%s --version: %v\n%s", path, err, out)
	}
	if version < systemd {
		Lacking(t, fmt.Sprintf("%s is of systemd %d, want %d or newer", path, version, systemd))
	}
	return path
}

// Run runs the tool name, which must succeed, and returns what it prints.
func Run(t testing.TB, name string, args ...string) string {
	t.Helper()
	out, err := Try(t, name, args...)
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
	return out
}

// Try runs the tool name, and returns what it prints, and its verdict.
func Try(t testing.TB, name string, args ...string) (string, error) {
	t.Helper()
	out, err := exec.Command(Find(t, name), args...).CombinedOutput()
	return string(out), err
}

// Dir is the directory in an environment variable: LOAM_BUILD, a finished
// build; LOAM_ROOT_TREE, its root tree; LOAM_TOOLS_TREE, the tools tree. `make
// test` sets them; if the variable is unset, the test is Lacking.
func Dir(t testing.TB, variable string) string {
	t.Helper()
	dir := os.Getenv(variable)
	if dir == "" {
		Lacking(t, variable+" is not set: make test sets it")
	}
	return dir
}
