package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/docs"
)

func TestReferenceIsTheHelpOfEveryCommand(t *testing.T) {
	docs.Golden(
		t,
		"../..",
		"docs/reference/loam.md",
		docs.Reference(root(), "the commands in cmd/loam"),
	)
}

func TestCommandLinesInTheDocumentationExist(t *testing.T) {
	pages, err := docs.Pages("../..")
	if err != nil {
		t.Fatal(err)
	}
	lines := docs.Lines(pages, "loam")
	if len(lines) < 20 {
		t.Fatalf("found %d command lines in the documentation, want 20 or more", len(lines))
	}

	for _, line := range lines {
		if err := line.Try(root()); err != nil {
			t.Errorf("%s: loam %q: %v", line.At, line.Args, err)
		}
	}
}

// TestThePlanOfAnUpgradeRunsACommand reads the command that system-upgrade-controller
// runs on a node.
func TestThePlanOfAnUpgradeRunsACommand(t *testing.T) {
	text, err := os.ReadFile("../../examples/cluster/plan.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var plan struct {
		Spec struct {
			Upgrade struct{ Command []string }
		}
	}
	if err := yaml.Unmarshal(text, &plan); err != nil {
		t.Fatal(err)
	}

	command := plan.Spec.Upgrade.Command
	if len(command) < 4 || !slices.Equal(command[:3], []string{"chroot", "/host", "loam"}) {
		t.Fatalf("it runs %q", command)
	}
	line := docs.Line{At: "examples/cluster/plan.yaml", Args: command[3:], Whole: true}
	if err := line.Try(root()); err != nil {
		t.Errorf("%s: loam %q: %v", line.At, line.Args, err)
	}
}

// TestDocumentationShowsWhatIsPrinted holds what pages show of a session, and
// of the console, against what the scripts of this package compare.
func TestDocumentationShowsWhatIsPrinted(t *testing.T) {
	var printed []string
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		printed = append(printed, strings.Split(string(text), "\n")...)
	}

	pages, err := docs.Pages("../..")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, page := range pages {
		blocks, _ := page.Blocks()
		for _, block := range blocks {
			isOurs := strings.HasPrefix(block.Text, "# loam ") ||
				strings.HasPrefix(block.Text, "  phase ") ||
				strings.HasPrefix(block.Text, "--- loam ")
			if !isOurs {
				continue
			}
			shown++
			for line := range strings.SplitSeq(block.Text, "\n") {
				if !strings.HasPrefix(line, "# ") && line != "…" &&
					!slices.Contains(printed, line) {
					t.Errorf("%s: no script prints %q", block.At, line)
				}
			}
		}
	}
	if shown < 6 {
		t.Errorf("found %d sessions in the documentation, want 6 or more", shown)
	}
}

func TestManPagesOfEveryCommand(t *testing.T) { docs.Man(t, root(), "8", "../..") }

func TestHelpOfEveryCommand(t *testing.T) { docs.Help(t, root()) }

func TestEveryCommandPrintsJSON(t *testing.T) {
	docs.Formats(t, root(), "../..", map[string]string{
		"agent":              "it runs until it is stopped, and logs",
		"boot":               "it prints nothing but JSON",
		"cluster kubeconfig": "it prints a kubeconfig",
		"repair":             "systemd runs it; loam status -o json has the result",
		"volume":             "systemd runs it; loam status -o json has the result",
	})
}

func TestEveryFlagIsCompleted(t *testing.T) { docs.Completion(t, root(), flags(status.Path)) }
