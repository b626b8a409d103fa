// Package conformance runs Kubernetes' conformance tests, built from its module, and has
// the list of them, with the reason for each that is left out.
package conformance

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/cluster"
)

// Headings of the tests that run: those that need a control plane only, and those that
// start pods on a machine, which take a minute in emulation, or several. The other
// headings say why the tests below them do not.
const (
	API     = "run at a control plane"
	Machine = "run on a machine"
	Slow    = "run on a machine, for minutes each"
)

// text has the full name of each conformance test of the newest version once, below a
// heading.
//
//go:embed tests.txt
var text string

// List returns the names of all conformance tests by their headings.
func List() map[string][]string {
	all := map[string][]string{}
	heading := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "["):
			all[heading] = append(all[heading], line)
		default:
			heading = line
		}
	}
	return all
}

// CheckList fails unless [List] has each test of the program once.
func CheckList(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), cluster.Program(t, "conformance"), "-list").Output()
	if err != nil {
		t.Fatal(err)
	}

	have := map[string]int{}
	for _, tests := range List() {
		for _, name := range tests {
			have[name]++
		}
	}
	for name := range strings.Lines(strings.TrimSpace(string(out))) {
		name = strings.TrimSpace(name)
		if have[name] != 1 {
			t.Errorf("the list has %d times: %s", have[name], name)
		}
		delete(have, name)
	}
	for name := range have {
		t.Errorf("the list has a test that this version does not have: %s", name)
	}
}

// OneOfEachGroup returns the first test of each special interest group, such as
// [sig-node], whose name begins the name of a test.
func OneOfEachGroup(tests []string) []string {
	var groups, first []string
	for _, name := range tests {
		group, _, _ := strings.Cut(name, " ")
		if !slices.Contains(groups, group) {
			groups = append(groups, group)
			first = append(first, name)
		}
	}
	return first
}

// Cluster is what the tests run at.
type Cluster struct {
	// Kubeconfig and Kubectl are the paths of a kubeconfig of an administrator and of
	// kubectl.
	Kubeconfig, Kubectl string
	// Start starts the program of the tests where it reaches the API server.
	Start func(*exec.Cmd) error
}

// result is what the program reports of a test.
type result struct {
	Name, State, Failure string
	Seconds              float64
}

// Run runs these tests, and fails for each that does not pass.
func (c Cluster) Run(t *testing.T, tests []string) {
	t.Helper()
	dir := t.TempDir()
	names, report := filepath.Join(dir, "tests"), filepath.Join(dir, "report")
	err := os.WriteFile(names, []byte(strings.Join(tests, "\n")+"\n"), 0o644)
	if err != nil {
		t.Fatal(err)
	}

	var log bytes.Buffer
	cmd := exec.CommandContext(t.Context(), cluster.Program(t, "conformance"),
		"-tests", names, "-report", report, "-kubeconfig", c.Kubeconfig,
		"-kubectl-path", c.Kubectl, "-provider", "skeleton", "-ginkgo.timeout", "12h")
	cmd.Dir = dir
	cmd.Stdout = &log
	cmd.Stderr = &log
	err = c.Start(cmd)
	if err == nil {
		err = cmd.Wait() // The exit status says that a test has failed, as the report does.
	}

	results := read(t, report)
	if len(results) == 0 {
		t.Fatalf("no test ran: %v\n%s", err, log.String())
	}
	var seconds float64
	for _, name := range tests {
		r, ok := results[name]
		switch {
		case !ok:
			t.Errorf("%s: did not run", name)
		case r.State != "passed":
			t.Errorf("%s: %s: %s", name, r.State, r.Failure)
		}
		seconds += r.Seconds
	}
	t.Logf("%d tests in %.0f s", len(tests), seconds)
}

// read returns the results in a report by their names.
func read(t *testing.T, report string) map[string]result {
	t.Helper()
	text, err := os.ReadFile(report)
	if err != nil {
		t.Fatal(err)
	}
	results := map[string]result{}
	for decoder := json.NewDecoder(bytes.NewReader(text)); decoder.More(); {
		var r result
		if err := decoder.Decode(&r); err != nil {
			t.Fatal(err)
		}
		t.Logf("%6.1f s  %s  %s", r.Seconds, r.State, r.Name)
		results[r.Name] = r
	}
	return results
}
