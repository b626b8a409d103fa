package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/status"
)

// Page is one document of the project.
type Page struct {
	// Path is relative to the top of the repository.
	Path string
	Text string
}

// Pages returns README.md, ARCHITECTURE.md, CONTRIBUTING.md and all of docs/.
// root is the top of the repository.
func Pages(root string) ([]Page, error) {
	paths := []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"}
	err := fs.WalkDir(os.DirFS(root), "docs", func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".md") {
			paths = append(paths, path)
		}
		return err
	})
	if err != nil {
		return nil, err
	}

	var pages []Page
	for _, path := range paths {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			return nil, err
		}
		pages = append(pages, Page{Path: path, Text: string(text)})
	}
	return pages, nil
}

// Block is a fenced block of a page.
type Block struct {
	// At is the page and the line of the fence.
	At string
	// Info is what follows the fence, such as "sh" or "yaml machine".
	Info string
	Text string
}

// Blocks returns the fenced blocks of a page, and the page without them.
func (p Page) Blocks() (blocks []Block, rest string) {
	var outside strings.Builder
	var open *Block
	number := 0
	for line := range strings.Lines(p.Text) {
		number++
		info, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open == nil:
			open = &Block{At: fmt.Sprintf("%s:%d", p.Path, number), Info: info}
			outside.WriteString("\n")
		case isFence:
			blocks = append(blocks, *open)
			open = nil
			outside.WriteString("\n")
		case open != nil:
			open.Text += line
			outside.WriteString("\n")
		default:
			outside.WriteString(line)
		}
	}

	return blocks, outside.String()
}

// updateVariable makes Golden write what it would compare.
const updateVariable = "LOAM_DOCS"

// Golden compares a generated page with the file of that name, relative to the
// top of the repository. `make docs` writes it instead.
func Golden(t *testing.T, root, path, text string) {
	t.Helper()
	if filepath.Ext(path) == ".md" {
		text = wrap(text)
	}
	file := filepath.Join(root, path)
	if os.Getenv(updateVariable) != "" {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}

	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v\nhint: make docs", err)
	}
	if diff := cmp.Diff(string(have), text); diff != "" {
		t.Errorf("%s is stale (-have +want)\n%s\nhint: make docs", path, diff)
	}
}

// columns is how long a line of prose may be.
const columns = 100

// wrap returns a page whose lines of prose are at most that long.
func wrap(page string) string {
	var b strings.Builder
	inBlock := false
	for line := range strings.Lines(page) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			inBlock = !inBlock
		}
		if inBlock || !isWrapped(line) {
			b.WriteString(line)
			continue
		}
		b.WriteString(strings.Join(status.Wrap(strings.TrimSuffix(line, "\n"), columns), "\n") + "\n")
	}
	return b.String()
}

// isWrapped reports whether a line outside of blocks may become several: it is neither
// of a table nor a comment.
func isWrapped(line string) bool {
	return !strings.HasPrefix(line, "|") && !strings.HasPrefix(line, "<!--")
}

// generated is how a generated page begins.
func generated(title, source string) string {
	return "# " + title + "\n\n<!-- Generated from " + source +
		". Change it there, then run make docs. -->\n\n"
}
