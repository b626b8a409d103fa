package unitfile_test

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/unitfile"
	"github.com/loam-os/loam/test/judge"
)

// dropIns has the names of the directories of drop-ins, the nearest first.
var dropIns = map[string]string{
	"foo.service":             "foo.service",
	"foo-bar.service":         "foo-bar.service foo-.service",
	"foo-bar-baz.service":     "foo-bar-baz.service foo-bar-.service foo-.service",
	"foo-bar-.service":        "foo-bar-.service foo-.service",
	"foo--bar.service":        "foo--bar.service foo--.service foo-.service",
	"-foo.service":            "-foo.service",
	"-foo-bar.service":        "-foo-bar.service -foo-.service",
	"-.slice":                 "-.slice",
	"var-lib-a\\x2db.mount":   "var-lib-a\\x2db.mount var-lib-.mount var-.mount",
	"foo@.service":            "foo@.service",
	"foo@a-b.service":         "foo@a-b.service foo@.service",
	"foo-bar@.service":        "foo-bar@.service foo-.service",
	"foo-bar@a.service":       "foo-bar@a.service foo-bar@.service foo-.service foo-@a.service foo-@.service",
	"foo-bar-baz@a.b.service": "foo-bar-baz@a.b.service foo-bar-baz@.service foo-bar-.service foo-.service foo-bar-@a.b.service foo-bar-@.service foo-@a.b.service foo-@.service",
}

func TestDropInNames(t *testing.T) {
	for name, want := range dropIns {
		if diff := cmp.Diff(strings.Fields(want), unitfile.DropInNames(name)); diff != "" {
			t.Errorf("DropInNames(%s) (-want +got):\n%s", name, diff)
		}
	}
}

// systemd says which of the drop-ins of one name it reads, by the directive in
// it that it does not know. Without that one it reads the next.
func TestSystemdReadsTheNearestDropIn(t *testing.T) {
	analyze := judge.Systemd(t, "systemd-analyze")
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(dropIns)), func(name string) bool {
		return !strings.HasSuffix(name, ".service") || unitfile.IsTemplate(name)
	})

	for _, name := range names {
		root := t.TempDir()
		dir := filepath.Join(root, "etc/systemd/system")
		place(t, filepath.Join(root, "usr/bin/true"), "", 0o755)

		file := name
		if template := unitfile.TemplateOf(name); template != "" {
			file = template
		}
		file = filepath.Join(dir, file)
		place(t, file, "[Service]\nExecStart=/usr/bin/true\n", 0o644)

		for _, want := range dropIns {
			for of := range strings.FieldsSeq(want) {
				text := fmt.Sprintf("[Service]\nNone=%s\n", of)
				place(t, filepath.Join(dir, of+".d/x.conf"), text, 0o644)
			}
		}

		var read []string
		for range len(dropIns) {
			out, _ := exec.Command(analyze, "verify", "--root="+root, "--man=no",
				"--generators=no", "--recursive-errors=no", "--", name).CombinedOutput()
			path, _, found := strings.Cut(string(out), "/x.conf:2:")
			if !found {
				break
			}

			read = append(read, strings.TrimSuffix(filepath.Base(path), ".d"))
			if err := os.RemoveAll(path); err != nil {
				t.Fatal(err)
			}
		}

		if diff := cmp.Diff(unitfile.DropInNames(name), read); diff != "" {
			t.Errorf("drop-ins of %s (-here +systemd):\n%s", name, diff)
		}
	}
}

func place(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
