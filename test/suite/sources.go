package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
)

// sources knows the directories and the imports of packages.
type sources struct {
	mutex   sync.Mutex
	dirs    map[string]string
	imports map[string][]string
}

func newSources() *sources {
	return &sources{
		dirs:    map[string]string{},
		imports: map[string][]string{},
	}
}

// format prints the path, the directory, and the direct imports of a package and
// of its tests.
const format = `{{.ImportPath}}	{{.Dir}}	{{join .Imports " "}} {{join .TestImports " "}} ` +
	`{{join .XTestImports " "}}`

// list returns the import paths of the packages of a pattern. A package with an
// error is among them, as its tests say it.
func (s *sources) list(ctx context.Context, dir, pattern string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "list", "-e", "-f", format, pattern)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list %s: %w: %s", pattern, err, bytes.TrimSpace(stderr.Bytes()))
	}

	s.mutex.Lock()
	defer s.mutex.Unlock()
	var paths []string
	for line := range strings.Lines(string(out)) {
		path, rest, _ := strings.Cut(strings.TrimRight(line, "\n"), "\t")
		dir, imports, _ := strings.Cut(rest, "\t")
		paths = append(paths, path)
		s.dirs[path] = dir
		s.imports[path] = strings.Fields(imports)
	}

	return paths, nil
}

// isLog implements [events.IsLog]: it reads the line.
func (s *sources) isLog(pkg, at string) bool {
	s.mutex.Lock()
	dir := s.dirs[pkg]
	s.mutex.Unlock()

	file, number, _ := strings.Cut(at, ":")
	n, err := strconv.Atoi(number)
	if err != nil {
		return false
	}
	// The file of a helper may be in another package.
	text, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return false
	}

	lines := strings.Split(string(text), "\n")
	if n < 1 || n > len(lines) {
		return false
	}
	return strings.Contains(lines[n-1], ".Log(") || strings.Contains(lines[n-1], ".Logf(")
}
