package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/loam-os/loam/test/docs"
)

// elsewhere has the commands of the documentation that no script brings to their
// end, and where they are tried.
var elsewhere = map[string]string{
	"flash":          "TestADryRunWritesNothingAndAsksNothing and agent/flash: it needs a disk",
	"judges":         "make test begins with it: it needs root and the tools tree",
	"osc publish":    "TestPublishToARealAPIServer",
	"pubkey":         "image/sign/ownerkey: TestEd25519KeysInAToken: it needs a token",
	"rollout forget": "TestRolloutAtARealAPIServer",
	"rollout retry":  "TestRolloutAtARealAPIServer",
	"rollout now":    "TestRolloutAtARealAPIServer",
	"rollout pause":  "TestRolloutAtARealAPIServer",
	"rollout plan":   "TestRolloutAtARealAPIServer",
	"rollout resume": "TestRolloutAtARealAPIServer",
	"rollout status": "TestRolloutAtARealAPIServer, and TestAPageIsPrintedWhenItChanges",
	"run":            "make run, and TestRunWaitsForTheVerdict: it needs root and QEMU",
	"serve":          "TestServe, TestSite, TestServeTurns and TestFiftyMachines: it does not end",
	"sign":           "test/image: TestCommandsOnABuild",
	"verify":         "test/image: TestCommandsOnABuild",
}

// typed is a command of a script that has to succeed.
var typed = regexp.MustCompile(`(?m)^exec (?:sh -c '|\w+ )?loamctl ([^&|;>\n]*)`)

// TestScriptsLeaveNothingOut holds the scripts against the documentation: each
// command, and each of its flags, is typed by a script as an operator would.
func TestScriptsLeaveNothingOut(t *testing.T) {
	tried := map[string]bool{}
	scripts, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, script := range scripts {
		text, err := os.ReadFile(script)
		if err != nil {
			t.Fatal(err)
		}
		for _, command := range typed.FindAllStringSubmatch(string(text), -1) {
			args := strings.Fields(command[1])
			if slices.Contains(args, "--help") {
				continue
			}
			for _, use := range uses(args) {
				tried[use] = true
			}
		}
	}

	pages, err := docs.Pages("../..")
	if err != nil {
		t.Fatal(err)
	}
	needed := map[string]bool{}
	for _, line := range docs.Lines(pages, "loamctl") {
		for _, use := range uses(line.Args) {
			needed[use] = true
			command, _, _ := strings.Cut(use, " --")
			if _, excused := elsewhere[command]; !tried[use] && !excused {
				t.Errorf("%s: loamctl %q: no script types %s", line.At, line.Args, use)
			}
		}
	}
	for use := range elsewhere {
		if tried[use] || !needed[use] {
			t.Errorf("%s: a script types it, or no page", use)
		}
	}
}

// uses returns the command that arguments name, such as "rollout now", and its
// flags, such as "rollout now --max".
func uses(args []string) []string {
	root := root()
	root.InitDefaultCompletionCmd()
	cmd, rest, err := root.Find(args)
	if err != nil || cmd.HasSubCommands() {
		return nil
	}

	name := strings.TrimPrefix(cmd.CommandPath(), root.Name()+" ")
	all := []string{name}
	for _, word := range rest {
		if flag := flagOf(cmd, strings.Trim(word, "[]")); flag != nil {
			all = append(all, name+" --"+flag.Name)
		}
	}
	return all
}

// flagOf returns the flag that a word of a command line is, nil for none.
func flagOf(cmd *cobra.Command, word string) *pflag.Flag {
	word, _, _ = strings.Cut(word, "=")
	if long, is := strings.CutPrefix(word, "--"); is {
		return cmd.Flags().Lookup(long)
	}
	if len(word) == 2 && word[0] == '-' {
		return cmd.Flags().ShorthandLookup(word[1:])
	}
	return nil
}
