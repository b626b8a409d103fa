package node

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/docs"
	"github.com/loam-os/loam/test/judge"
)

// tourFile has the commands of a tour through the documentation, and what each
// shows. LOAM_GOLDEN=1 writes it again.
const tourFile = "testdata/tour.txt"

// elsewhere has the commands and flags of the documentation that the tour
// leaves out, and where they are tried.
var elsewhere = map[string]string{
	"agent":       "every machine runs it",
	"volume":      "TestADataVolume",
	"repair":      "TestDamagedState: a damaged machine runs it",
	"completion":  "cmd/loam: TestScripts/complete",
	"drill":       "TestADrillFallsBack: it restarts the machine twice",
	"--by":        "the same",
	"--again":     "TestUpgrades",
	"--downgrade": "test/crash/upgrade: TestADowngradeTakesAPermit",
	"--follow":    "cmd/loam: TestScripts/logs: it does not end",
	"--watch":     "cmd/loam: TestWatchDrawsOverTheTerminal: it does not end",
	"--boot":      "cmd/loam: TestScripts/logs: it needs an earlier boot",
	"--all":       "cmd/loam: TestScripts/why",
	"--yes":       "cmd/loam: TestScripts/reset, and TestResetUnderSystemd",
	"--now":       "TestANodeOfAClusterUpgradesItself: it is about the turns of a pool",
	"cluster":     "TestAMachineIsACluster, and cmd/loam: TestScripts/cluster",
	"--for":       "the same",
	"--user":      "agent/plane: TestKubeconfig",
	"--group":     "agent/plane: TestKubeconfig",
}

// TestTour types the commands of the documentation into a terminal of a node,
// and compares what each shows.
func TestTour(t *testing.T) {
	judge.Long(t, "the scripts of cmd/loam")
	parallel(t, 3*time.Minute)
	b := open(t)
	u := next(t).publish(t, nil)
	hello := readFile(t, "../../examples/hello.yaml")

	m := b.flash(t, b.file(".raw"))
	m.config.Host = true
	n := m.on(t, map[string]string{
		"loam.machine": machineYAML(b.manifest.Arch,
			"source: {credential: {name: loam.config}}\n"+u.machineYAML()),
		"loam.config": string(hello),
	})

	n.applied()
	n.shell()
	n.says(func(s status.Status) bool { return s.Phase == status.Applied && s.Change == nil })

	t.Run("the kernel is hardened", func(t *testing.T) { isHardened(t, n) })

	n.sh("stty cols 80 rows 25; mkdir -p /run/tour; cd /run/tour")
	for name, replace := range map[string][2]string{
		"new.yaml":   {"HELLO_NAME=Loam", "HELLO_NAME=you"},
		"bad.yaml":   {"set -eu", "echo 'the greeting is broken' >&2; exit 3"},
		"wrong.yaml": {"permissions: 0444", "permissions: 0888"},
	} {
		n.write("/run/tour/"+name, strings.Replace(string(hello), replace[0], replace[1], 1))
	}

	mask := newMask(b, next(t))
	var tour strings.Builder
	for _, step := range steps(t) {
		tour.WriteString(step.comment + "# " + step.command + "\n")
		shown := left(n.shows(step.command))
		if line := misaligned(shown); line != "" {
			t.Errorf("%s: columns that are not aligned: %s\n%s", step.command, line, shown)
		}
		tour.WriteString(mask.hide(shown))
	}

	if os.Getenv("LOAM_GOLDEN") != "" {
		if err := os.WriteFile(tourFile, []byte(tour.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(readFile(t, tourFile)), tour.String()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", tourFile, diff)
	}

	t.Run("a directory of an NFS server", func(t *testing.T) { mountsNFS(t, n) })
	t.Run("a disk of an iSCSI target", func(t *testing.T) { usesISCSI(t, n) })
}

// TestTourLeavesNothingOut holds the tour against the documentation.
func TestTourLeavesNothingOut(t *testing.T) {
	tried := map[string]bool{}
	for word := range elsewhere {
		tried[word] = true
	}
	for _, step := range steps(t) {
		for word := range strings.FieldsSeq(step.command) {
			flag, _, _ := strings.Cut(word, "=")
			tried[flag] = true
		}
	}

	pages, err := docs.Pages("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range docs.Lines(pages, "loam") {
		for i, word := range line.Args {
			word, _, _ = strings.Cut(strings.Trim(word, "[]"), "=")
			if (i == 0 || strings.HasPrefix(word, "--")) && !tried[word] {
				t.Errorf("%s: loam %v: no step of the tour has %s", line.At, line.Args, word)
			}
		}
	}
}

// step is a command of the tour, after the lines of its comment.
type step struct{ comment, command string }

// steps reads the commands of the tour: "# " is the prompt, "## " begins a
// comment.
func steps(t *testing.T) []step {
	t.Helper()
	var all []step
	comment := ""
	for line := range strings.Lines(string(readFile(t, tourFile))) {
		command, isCommand := strings.CutPrefix(line, "# ")
		switch {
		case strings.HasPrefix(line, "## "):
			comment += line
		case isCommand:
			all = append(all, step{comment, strings.TrimSpace(command)})
			comment = ""
		}
	}

	if len(all) < 30 {
		t.Fatalf("%s has %d commands", tourFile, len(all))
	}
	return all
}

// shows runs a command in the terminal and returns what it shows, with its exit
// status unless that is 0.
func (n *node) shows(command string) string {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), stepTimeout)
	defer cancel()

	out, err := n.Shell().Run(ctx,
		command+`; code=$?; [ $code = 0 ] || printf '\nexit status %d' $code`)
	if err != nil {
		n.t.Fatalf("%s: %v", command, err)
	}
	return out
}

var (
	colours = regexp.MustCompile(`\x1b\[[0-9;?]*[A-Za-z]`)
	// erased is what a bar shows until it is drawn again or erased: the shell leaves
	// out the carriage returns.
	erased = regexp.MustCompile(`(?m)[^\n]*\x1b\[K([^\n])`)
	// drawn is what is drawn over, and the progress of a slow machine.
	drawn = regexp.MustCompile(`(?m)[^\n]*\r|^waiting for .*\n|^.*\d+ % .* (?:left|in \S+)$\n`)
)

// left returns what a terminal shows in the end.
func left(text string) string {
	text = erased.ReplaceAllString(text, "$1")
	return drawn.ReplaceAllString(colours.ReplaceAllString(text, ""), "")
}

// mask hides what differs from run to run.
type mask struct{ hidden []hidden }

type hidden struct {
	pattern *regexp.Regexp
	word    string
}

func newMask(b, next build) mask {
	var m mask
	add := func(pattern, word string) {
		m.hidden = append(m.hidden, hidden{regexp.MustCompile(pattern), word})
	}

	add(regexp.QuoteMeta(next.manifest.Version), "NEXT")
	add(regexp.QuoteMeta(b.manifest.Version), "VERSION")
	add(regexp.QuoteMeta(filepath.Base(b.manifest.Arch)), "ARCH")
	add(`(\d{6})-[0-9a-f]{12}\b`, "$1-DIGEST")
	add(`\b[0-9a-f]{8}-[0-9a-f-]{27}\b`, "UUID")
	add(`\b[0-9a-f]{64}\b`, "SHA256")
	add(`\b[0-9a-f]{32}\b`, "ID")
	add(`\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?`, "DATE")
	add(`\b[A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d`, "DATE")
	add(`\b\d\d:\d\d(:\d\d)?\b`, "TIME")
	add(`10\.0\.2\.2:\d+`, "10.0.2.2:PORT")
	add(`\b\d+\.\d+\.\d+\+deb[^ \n]*`, "KERNEL")
	add(`\[\d+\]:`, "[PID]:")
	add(`\b(\d+h)?(\d+m)?\d+(\.\d+)?(ms|s)\b`, "DURATION")
	add(`\b\d+(\.\d+)? (s|ms|KiB|MiB|GiB|KB|MB|GB|bytes)\b`, "N $2")
	add(` {2,}`, "  ")
	add(` +\n`, "\n")
	return m
}

// hide returns what is left of a text without what differs from run to run.
func (m mask) hide(text string) string {
	text = strings.TrimRight(text, "\n") + "\n"
	if text == "\n" {
		return ""
	}
	for _, h := range m.hidden {
		text = h.pattern.ReplaceAllString(text, h.word)
	}
	return text
}
