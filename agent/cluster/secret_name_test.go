package cluster

import (
	"path/filepath"
	"testing"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/test/files"
)

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
			root := files.Root(t)
			if test.file != "" {
				files.Write(t, filepath.Join(root.Name(), secretName), test.file)
			}
			if got := loadSecretName(root, test.configured); got != test.want {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}

	t.Run("as it was saved", func(t *testing.T) {
		root := files.Root(t)
		if err := saveSecretName(durable.New(root, nil), "label", "pool"); err != nil ||
			loadSecretName(root, "pool") != "label" ||
			loadSecretName(root, "new") != "new" {
			t.Errorf("%q and %q, %v", loadSecretName(root, "pool"), loadSecretName(root, "new"),
				err)
		}
		if err := saveSecretName(durable.New(root, nil), "No_Name", "pool"); err == nil ||
			loadSecretName(root, "pool") != "label" {
			t.Errorf("%q, %v", loadSecretName(root, "pool"), err)
		}
	})
}
