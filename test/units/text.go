package units

import (
	"errors"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loam-os/loam/test/files"
)

// Files returns the Texts of a machine: the unit files of the root directory
// image, and in their place those in /etc of the root directory root, with their
// drop-ins. A link to /dev/null, or to nothing, hides a unit.
func Files(root, image string) func() map[string]string {
	return func() map[string]string {
		texts := map[string]string{}
		dirs := []unitDir{{image, "usr/lib/systemd/system"}, {root, "etc/systemd/system"}}
		for _, d := range dirs {
			d.addUnits(texts)
		}
		for _, d := range dirs {
			d.addDropIns(texts)
		}
		return texts
	}
}

// unitDir is a directory of units beneath a root directory.
type unitDir struct{ root, dir string }

func (d unitDir) addUnits(texts map[string]string) {
	for _, name := range list(path.Join(d.root, d.dir)) {
		if strings.HasSuffix(name, ".d") || strings.HasSuffix(name, ".wants") {
			continue
		}
		delete(texts, name)
		if text, err := readBeneath(d.root, path.Join(d.dir, name)); err == nil {
			texts[name] = text
		}
	}
}

func (d unitDir) addDropIns(texts map[string]string) {
	for name := range texts {
		dropIns := path.Join(d.dir, name+".d")
		for _, in := range list(path.Join(d.root, dropIns)) {
			if text, err := readBeneath(d.root, path.Join(dropIns, in)); err == nil {
				texts[name] += text
			}
		}
	}
}

// list returns the names in a directory, sorted; none if it is not there.
func list(dir string) []string {
	entries, _ := os.ReadDir(dir)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// readBeneath reads what a program whose root directory is root finds there.
func readBeneath(root, name string) (string, error) {
	file, err := files.Follow(root, name)
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(path.Join(root, file))
	return string(text), err
}

// value returns the last value of a setting, "" if the text has none.
func value(text, key string) string {
	last := ""
	for line := range strings.Lines(text) {
		if v, is := strings.CutPrefix(strings.TrimSpace(line), key+"="); is {
			last = v
		}
	}
	return last
}

// isTrue reports whether a value is true (systemd.syntax(7)).
func isTrue(value string) bool {
	return slices.Contains([]string{"1", "yes", "true", "on"}, value)
}

// typeOf returns the Type= of a service.
func typeOf(text string) string {
	if t := value(text, "Type"); t != "" {
		return t
	}
	return "simple"
}

// startLimit returns TimeoutStartSec=, DefaultTimeoutStartSec= without one, 0 for
// no limit.
func startLimit(text string) time.Duration {
	limit := value(text, "TimeoutStartSec")
	if limit == "" {
		return 90 * time.Second
	}
	if seconds, err := strconv.Atoi(limit); err == nil {
		return time.Duration(seconds) * time.Second
	}
	d, err := time.ParseDuration(strings.Replace(limit, "min", "m", 1))
	if err != nil {
		return 0 // "infinity"
	}
	return d
}

var exits = regexp.MustCompile(`\bexit ([1-9]\d*)`)

// run runs the program of a unit.
func (f *Fake) run(name, text string) error {
	if f.Run != nil {
		return f.Run(name, text)
	}
	if exit := exits.FindStringSubmatch(value(text, "ExecStart")); exit != nil {
		code, _ := strconv.Atoi(exit[1])
		return Exit(code)
	}
	return nil
}

// exitCode returns the exit code of a program that has failed.
func exitCode(err error) int {
	var exit Exit
	if errors.As(err, &exit) {
		return int(exit)
	}
	return 1
}
