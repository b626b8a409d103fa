package docs

import (
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/test/keys"
)

func allPages(t *testing.T) []Page {
	t.Helper()
	pages, err := Pages("../..")
	if err != nil {
		t.Fatal(err)
	}
	return pages
}

const machineHeader = "apiVersion: loam.dev/v1alpha1\nkind: Machine\n"

// TestExamplesAreValid takes every example of a document through the validator
// that nodes use. A fragment gets the header; "…" and {...} stand for a
// certificate and for the root metadata of a repository.
func TestExamplesAreValid(t *testing.T) {
	found := map[string]int{}
	certificate := base64.StdEncoding.EncodeToString(keys.New(t, "example").Certificate.Raw)
	for _, page := range allPages(t) {
		blocks, _ := page.Blocks()
		for _, block := range blocks {
			kind, isYAML := strings.CutPrefix(block.Info, "yaml")
			if !isYAML {
				continue
			}
			found[strings.TrimSpace(kind)]++
			text := strings.NewReplacer(
				"{...}", `{"signed": {"_type": "root"}}`,
				"…", certificate,
			).Replace(block.Text)

			var err error
			switch strings.TrimSpace(kind) {
			case "machine":
				if !strings.Contains(text, "apiVersion:") {
					text = machineHeader + text
				}
				_, err = machine.Decode(block.At, []byte(text))
			case "osc":
				document, wrong := osc.Decode(block.At, []byte(text))
				err = osc.Check(wrong, document, osc.Env{})
			default:
				err = fmt.Errorf("a block of kind %q: want yaml machine, or yaml osc", block.Info)
			}
			if err != nil {
				t.Errorf("%s: %v", block.At, err)
			}
		}
	}
	if found["machine"] < 10 || found["osc"] < 1 {
		t.Errorf("found %v examples in the documentation", found)
	}
}

// link is a link to a file, with or without a heading.
var link = regexp.MustCompile(`\]\(([^)#:]*)(?:#([^)]*))?\)`)

func TestLinksLeadSomewhere(t *testing.T) {
	for _, page := range allPages(t) {
		_, rest := page.Blocks()
		for _, match := range link.FindAllStringSubmatch(rest, -1) {
			target := filepath.Join("../..", filepath.Dir(page.Path), match[1])
			if match[1] == "" {
				target = filepath.Join("../..", page.Path)
			}
			text, err := os.ReadFile(target)
			if info, statErr := os.Stat(target); statErr == nil && info.IsDir() {
				continue
			}
			if err != nil {
				t.Errorf("%s: %v", page.Path, err)
			} else if match[2] != "" && !headings(string(text))[match[2]] {
				t.Errorf("%s: %s has no heading #%s", page.Path, match[1], match[2])
			}
		}
	}
}

// notInAnchor is what GitHub leaves out of the anchor of a heading.
var notInAnchor = regexp.MustCompile(`[^\p{L}\p{N} _-]`)

// headings returns the anchors of a page.
func headings(text string) map[string]bool {
	anchors := map[string]bool{}
	_, rest := Page{Text: text}.Blocks()
	for line := range strings.Lines(rest) {
		if heading, is := strings.CutPrefix(strings.TrimLeft(strings.TrimSpace(line), "#"), " "); is &&
			strings.HasPrefix(line, "#") {
			anchors[strings.ReplaceAll(
				notInAnchor.ReplaceAllString(strings.ToLower(heading), ""),
				" ",
				"-",
			)] = true
		}
	}
	return anchors
}

// TestEveryPageIsFoundFromREADME follows the links.
func TestEveryPageIsFoundFromREADME(t *testing.T) {
	linked := map[string]bool{"README.md": true}
	for _, page := range allPages(t) {
		for _, match := range link.FindAllStringSubmatch(page.Text, -1) {
			linked[filepath.Join(filepath.Dir(page.Path), match[1])] = true
		}
	}
	for _, page := range allPages(t) {
		if !linked[page.Path] {
			t.Errorf("no page links to %s", page.Path)
		}
	}
}

// TestPagesAreShort keeps the two pages that everybody reads at a length that
// everybody reads.
func TestPagesAreShort(t *testing.T) {
	limits := map[string]int{"README.md": 900, "ARCHITECTURE.md": 2100}

	for _, page := range allPages(t) {
		words := len(strings.Fields(page.Text))
		if limit, has := limits[page.Path]; has && words > limit {
			t.Errorf("%s has %d words, want at most %d", page.Path, words, limit)
		}
		if strings.HasPrefix(page.Path, "docs/reference/") {
			continue
		}
		_, rest := page.Blocks()
		for paragraph := range strings.SplitSeq(rest, "\n\n") {
			words := len(strings.Fields(paragraph))
			if isProse(paragraph) && words > 120 {
				t.Errorf("%s: a paragraph of %d words, want at most 120: %.60s…",
					page.Path, words, strings.TrimSpace(paragraph))
			}
		}
	}
}

// TestLinesAreShort looks at prose only: a command can be longer.
func TestLinesAreShort(t *testing.T) {
	for _, page := range allPages(t) {
		_, rest := page.Blocks()
		number := 0
		for line := range strings.Lines(rest) {
			number++
			isCommand := strings.HasPrefix(line, "`")
			length := utf8.RuneCountInString(strings.TrimSuffix(line, "\n"))
			if isWrapped(line) && !isCommand && length > columns {
				t.Errorf("%s:%d: %d columns, want at most %d", page.Path, number, length, columns)
			}
		}
	}
}

// testName is a test in the text of a page.
var testName = regexp.MustCompile("`(Test[A-Z][A-Za-z0-9]*)`")

// TestTestsOfTheSecurityPageExist keeps the page from promising what nothing
// checks.
func TestTestsOfTheSecurityPageExist(t *testing.T) {
	var tests strings.Builder
	err := filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		tests.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}

	text, err := os.ReadFile("../../docs/security.md")
	if err != nil {
		t.Fatal(err)
	}

	names := testName.FindAllStringSubmatch(string(text), -1)
	for _, name := range names {
		if !strings.Contains(tests.String(), "\nfunc "+name[1]+"(") {
			t.Errorf("docs/security.md names %s, which is no test", name[1])
		}
	}
	if len(names) < 10 {
		t.Errorf("%d tests", len(names))
	}
}

func isProse(paragraph string) bool {
	return !strings.ContainsAny(
		strings.TrimSpace(paragraph)[:min(1, len(strings.TrimSpace(paragraph)))],
		"|-#!<1",
	)
}
