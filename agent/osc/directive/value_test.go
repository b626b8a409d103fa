package directive_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/osc/directive"
	"github.com/loam-os/loam/test/judge"
)

// trial is a unit with one directive, which has a value a line.
type trial struct {
	section, name string
	unit          string
	// before is the unit up to the first of the values.
	before string
	// left are the values that systemd has not judged, and refused are those
	// for which it prints something.
	left, refused []string
	values        []string
}

func newTrial(number int, section, name string) *trial {
	t := &trial{section: section, name: name}
	stem := fmt.Sprintf("t%d", number)
	switch section {
	case "Unit":
		t.unit, t.before = stem+".target", "[Unit]\n"
	case "Service":
		t.unit, t.before = stem+".service", "[Service]\nExecStart=/usr/bin/true\n"
	case "Socket":
		t.unit, t.before = stem+".socket", "[Socket]\nListenStream=/run/a\nService=z.service\n"
	case "Mount":
		t.unit, t.before = stem+".mount", "[Mount]\nWhat=tmpfs\nWhere=/"+stem+"\n"
	case "Timer":
		t.unit, t.before = stem+".timer", "[Timer]\nOnBootSec=1h\nUnit=z.service\n"
	case "Path":
		t.unit, t.before = stem+".path", "[Path]\nPathExists=/a\nUnit=z.service\n"
	default:
		t.unit = stem + "." + strings.ToLower(section)
		t.before = "[" + section + "]\n"
	}
	return t
}

func (t *trial) text() string {
	var text strings.Builder
	text.WriteString(t.before)
	for _, value := range t.left {
		fmt.Fprintf(&text, "%s=%s\n", t.name, value)
	}
	return text.String()
}

var (
	said = regexp.MustCompile(`^(?:.*/)?(t\d+\.\w+):(\d+): (.*)`)
	// fatal is said of a unit that systemd stops reading at an error.
	fatal = regexp.MustCompile(`(t\d+\.\w+).* bad unit file setting`)
	// taken is said of values that systemd takes all the same.
	taken = regexp.MustCompile(`unknown escape|KillMode=none|nobody|obsolete|deprecated`)
)

// judgeAll asks systemd about all trials, again for those in which it stopped
// reading.
func judgeAll(t *testing.T, trials []*trial) {
	t.Helper()
	analyze := judge.Systemd(t, "systemd-analyze")
	for len(trials) > 0 {
		root := t.TempDir()
		dir := filepath.Join(root, "etc/systemd/system")
		write(t, filepath.Join(root, "usr/bin/true"), "", 0o755)
		write(t, filepath.Join(dir, "z.service"), "[Service]\nExecStart=/usr/bin/true\n", 0o644)
		args := []string{"verify", "--root=" + root, "--man=no", "--generators=no",
			"--recursive-errors=no"}
		byUnit := map[string]*trial{}
		for _, trial := range trials {
			write(t, filepath.Join(dir, trial.unit), trial.text(), 0o644)
			args = append(args, trial.unit)
			byUnit[trial.unit] = trial
		}

		// It exits with 1 if it finds anything.
		out, _ := exec.Command(analyze, args...).CombinedOutput()
		stopped := map[*trial]bool{}
		last := map[*trial]int{}
		for line := range strings.Lines(string(out)) {
			if at := said.FindStringSubmatch(line); at != nil {
				trial := byUnit[at[1]]
				number, _ := strconv.Atoi(at[2])
				i := number - 1 - strings.Count(trial.before, "\n")
				last[trial] = i
				if !taken.MatchString(at[3]) {
					trial.refused = append(trial.refused, trial.left[i])
				}
			} else if at := fatal.FindStringSubmatch(line); at != nil {
				stopped[byUnit[at[1]]] = true
			}
		}

		trials = slices.DeleteFunc(trials, func(trial *trial) bool {
			if i, found := last[trial]; found && stopped[trial] {
				trial.left = trial.left[i+1:]
				return len(trial.left) == 0
			}
			return true
		})
	}
}

// sample returns one of every so many values, others for each number.
func sample(values []string, number, every int) []string {
	var some []string
	for i, value := range values {
		if (i+number)%every == 0 {
			some = append(some, value)
		}
	}
	return some
}

func write(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// TestFaultIsWhatSystemdSays gives each directive that is checked here each of
// the values, and compares the verdicts with systemd's.
func TestFaultIsWhatSystemdSays(t *testing.T) {
	text, err := os.ReadFile("testdata/values.txt")
	if err != nil {
		t.Fatal(err)
	}
	values := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")

	var trials []*trial
	for _, of := range directive.Checked() {
		trial := newTrial(len(trials), of[0], of[1])
		trial.left = sample(values, len(trials), judge.Pick(4, 1))
		trial.values = trial.left
		trials = append(trials, trial)
	}
	judgeAll(t, slices.Clone(trials))

	for _, trial := range trials {
		for _, value := range trial.values {
			problem, _ := directive.Fault(trial.section, trial.name, value)
			if refused := slices.Contains(trial.refused, value); refused != (problem != "") {
				t.Errorf("[%s] %s=%s: here %q, systemd refuses it: %t",
					trial.section, trial.name, value, problem, refused)
			}
		}
	}
	t.Logf("%d directives, %d values", len(trials), len(values))
}
