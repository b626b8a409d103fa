package osc_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/test/judge"
)

// systemd-analyze finds nothing wrong with the units of the example.
func TestExampleUnitsVerify(t *testing.T) {
	analyze := judge.Find(t, "systemd-analyze")
	text, err := os.ReadFile("../../examples/hello.yaml")
	if err != nil {
		t.Fatal(err)
	}

	decoded, err := osc.Decode("hello.yaml", text)
	if err != nil {
		t.Fatal(err)
	}

	desired, err := osc.Merge(decoded, osc.Env{Hostname: "hello"})
	if err != nil {
		t.Fatal(err)
	}

	root := t.TempDir()
	for _, file := range desired.Files {
		place(t, root, file.Path, read(t, file.Content), file.Mode)
	}

	place(t, root, "/usr/bin/cat", "", 0o755)
	args := []string{
		"verify", "--root=" + root, "--man=no", "--generators=no", "--recursive-errors=no",
	}

	for _, unit := range desired.Units {
		if unit.Content != nil {
			place(t, root, "/etc/systemd/system/"+unit.Name, *unit.Content, 0o644)
			args = append(args, unit.Name)
		}
		for _, dropIn := range unit.DropIns {
			place(t, root, "/etc/systemd/system/"+unit.Name+".d/"+dropIn.Name,
				dropIn.Content, 0o644)
		}
	}

	out, err := exec.Command(analyze, args...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

func read(t *testing.T, content config.Content) string {
	t.Helper()
	r, err := content.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()

	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}

	return string(text)
}

func place(t *testing.T, root, path, text string, mode os.FileMode) {
	t.Helper()
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
