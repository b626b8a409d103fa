package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/kernel"
)

func TestKernelIsOpenedAsMachineYAMLSays(t *testing.T) {
	dir := t.TempDir()
	const ring = "proc/sys/kernel/io_uring_disabled"
	for name, text := range map[string]string{
		ring:                                 "2\n",
		"usr/lib/modules/6.12/modules.alias": "alias net-pf-2-proto-132 sctp\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}

	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	steps := []struct {
		open          kernel.Opening
		ring, modules string
		err           string
	}{
		{open: kernel.Opening{}, ring: "2\n"},
		{
			open:    kernel.Opening{IOUring: true, Modules: []string{"sctp"}},
			ring:    "0",
			modules: "alias net-pf-2-proto-132 sctp",
		},
		{
			open:    kernel.Opening{Modules: []string{"can"}},
			ring:    "2",
			modules: "# From machine.yaml",
			err: "open what machine.yaml says of the kernel: " +
				"no process has the kernel load the module can",
		},
		{open: kernel.Opening{}, ring: "2"},
	}
	for _, step := range steps {
		err := openKernel(root, "6.12", step.open)
		if (err != nil && err.Error() != step.err) || (err == nil && step.err != "") {
			t.Errorf("%+v: %v, want %q", step.open, err, step.err)
		}
		if text := read(t, dir, ring); text != step.ring {
			t.Errorf("%+v: %s is %q, want %q", step.open, ring, text, step.ring)
		}
		text := read(t, dir, kernel.ModulesFile)
		if (step.modules == "" && text != "") || !strings.Contains(text, step.modules) {
			t.Errorf("%+v: modules are %q, want %q", step.open, text, step.modules)
		}
	}
}

// read returns the text of a file, "" if there is none.
func read(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return string(text)
}
