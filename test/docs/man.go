package docs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/loam-os/loam/image/lock"
)

// manVariable names the directory into which Man writes.
const manVariable = "LOAM_MAN"

// Man makes the man pages of a program and of all its commands, in section 1 or,
// for what only root runs, 8. `make man` writes them, the tests only make them.
// root is the top of the repository: the date of its lock is the pages' date, so
// that the same source makes the same pages.
func Man(t *testing.T, cmd *cobra.Command, section, root string) {
	t.Helper()
	packages, err := lock.Read(filepath.Join(root, "mkosi/packages.lock"))
	if err != nil {
		t.Fatal(err)
	}

	dir := os.Getenv(manVariable)
	if dir == "" {
		dir = t.TempDir()
	}
	dir = filepath.Join(dir, "man"+section)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}

	cmd.InitDefaultHelpCmd()
	cmd.InitDefaultCompletionCmd()
	disableFooters(cmd)
	err = doc.GenManTree(cmd, &doc.GenManHeader{
		Section: section,
		Date:    &packages.Date,
		Source:  "Loam",
		Manual:  "Loam",
	}, dir)
	if err != nil {
		t.Fatal(err)
	}
	checkPages(t, cmd, section, dir)
}

// disableFooters leaves out the line with the date of the generation.
func disableFooters(cmd *cobra.Command) {
	cmd.DisableAutoGenTag = true
	for _, sub := range cmd.Commands() {
		disableFooters(sub)
	}
}

// checkPages looks for a page of each command that has its description.
func checkPages(t *testing.T, cmd *cobra.Command, section, dir string) {
	t.Helper()
	if !cmd.IsAvailableCommand() || cmd.Name() == "help" {
		return
	}

	name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + "." + section
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Error(err)
	} else if !strings.Contains(string(text), ".SH NAME") ||
		!strings.Contains(string(text), strings.ReplaceAll(cmd.Name(), "-", `\-`)) {
		t.Errorf("%s has no name:\n%s", name, text)
	}

	for _, sub := range cmd.Commands() {
		checkPages(t, sub, section, dir)
	}
}
