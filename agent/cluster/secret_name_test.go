package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// newRoot returns the root directory of an empty node.
func newRoot(t *testing.T) (root *os.Root, dir string) {
	t.Helper()
	dir = t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })

	return root, dir
}

// place writes a file of the node.
func place(t *testing.T, dir, name, text string) {
	t.Helper()
	name = filepath.Join(dir, name)
	err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755),
		os.WriteFile(name, []byte(text), 0o600))
	if err != nil {
		t.Fatal(err)
	}
}

func TestNameOfTheSecretIsSaved(t *testing.T) {
	for _, test := range []struct{ name, file, configured, want string }{
		{"none", "", "pool", "pool"},
		{"the label's", "label\npool\n", "pool", "label"},
		{"the label's, and another is configured since", "label\npool\n", "new", "new"},
		{"the label's, by an older agent", "label\n", "pool", "label"},
		{"an invalid name", "Not A\nName", "pool", "pool"},
		{"an invalid name, with the same configuration", "Not A\npool\n", "pool", "pool"},
		{"a path", "../a\n", "pool", "pool"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root, dir := newRoot(t)
			if test.file != "" {
				place(t, dir, secretName, test.file)
			}
			if got := loadSecretName(root, test.configured); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}

	t.Run("as it was saved", func(t *testing.T) {
		root, _ := newRoot(t)
		if err := saveSecretName(root, "label", "pool"); err != nil ||
			loadSecretName(root, "pool") != "label" ||
			loadSecretName(root, "new") != "new" {
			t.Errorf("%q and %q, %v", loadSecretName(root, "pool"), loadSecretName(root, "new"),
				err)
		}
		if err := saveSecretName(root, "No_Name", "pool"); err == nil ||
			loadSecretName(root, "pool") != "label" {
			t.Errorf("%q, %v", loadSecretName(root, "pool"), err)
		}
	})
}
