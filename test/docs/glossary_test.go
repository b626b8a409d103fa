package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// entry is a word of the glossary and the folder that it is in.
var entry = regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \| \[[^]]+\]\(\.\./([^)]+)\) \|$`)

func TestWordsOfTheGlossaryAreUsedWhereItSays(t *testing.T) {
	entries := entry.FindAllStringSubmatch(read(t, "../../docs/glossary.md"), -1)
	if len(entries) < 40 {
		t.Fatalf("found %d words with a folder, want 40 or more", len(entries))
	}
	for _, e := range entries {
		word, folder := strings.ToLower(e[1]), filepath.Join("../..", e[2])
		if !strings.Contains(code(t, folder), word) {
			t.Errorf("%s: no %q in it", e[2], word)
		}
	}
}

// code returns the code of a folder without its tests, in lower case.
func code(t *testing.T, folder string) string {
	t.Helper()
	var all strings.Builder
	err := fs.WalkDir(os.DirFS(folder), ".", func(name string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
			all.WriteString(read(t, filepath.Join(folder, name)))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.ToLower(all.String())
}
