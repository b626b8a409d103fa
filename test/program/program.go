// Package program builds programs of others, and programs that use the code of
// others, into the cache, so that tests find them there. Each is pinned by a Go
// module in a directory of its own, so that Loam's go.mod stays small.
package program

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/image/cache"
)

// Module is a nested Go module, and what is built in it.
type Module struct {
	// Name begins the name of the entry in the cache.
	Name string

	// Dir is the module's directory in the checkout, as test/cluster/etcd.
	Dir string

	// ModFile is the go.mod to build with, if it is another one (go help
	// modules, -modfile). Its go.sum is beside it.
	ModFile string

	// Release is the path of the module whose version the programs report as
	// the version of Kubernetes (k8s.io/component-base/version), if any.
	Release string

	// Tags are the build tags.
	Tags string

	Programs []Program
}

// Program is the name of a program, and its package, which is in the module
// itself if it begins with "./".
type Program struct{ Name, Package string }

// Ensure builds the programs if they are not in the cache, with a line on out
// for each, and returns their paths by name.
func (m Module) Ensure(ctx context.Context, out io.Writer) (map[string]string, error) {
	entry, err := m.Entry(ctx)
	if err != nil {
		return nil, err
	}

	_, err = cache.Ensure(ctx, filepath.Dir(entry), filepath.Base(entry), func(tmp string) error {
		return m.build(ctx, out, tmp)
	})
	if err != nil {
		return nil, err
	}

	return m.Locate(ctx)
}

// Locate returns where each program is, or would be, by its name.
func (m Module) Locate(ctx context.Context) (map[string]string, error) {
	entry, err := m.Entry(ctx)
	if err != nil {
		return nil, err
	}

	paths := map[string]string{}
	for _, p := range m.Programs {
		paths[p.Name] = filepath.Join(entry, p.Name)
	}

	return paths, nil
}

// Entry returns the path of the module's entry in the cache, whether or not it
// is there. Its name has a digest of all that decides what is built, but for
// the version of Go, since any that can build the programs will do.
func (m Module) Entry(ctx context.Context) (string, error) {
	root, err := Root(ctx)
	if err != nil {
		return "", err
	}

	dir, err := CacheDir()
	if err != nil {
		return "", err
	}

	modFile := m.modFile()
	sum := sha256.New()
	for _, file := range []struct{ label, name string }{
		{"go.mod", modFile},
		{"go.sum", strings.TrimSuffix(modFile, ".mod") + ".sum"},
	} {
		if err := addFile(sum, file.label, filepath.Join(root, m.Dir, file.name)); err != nil {
			return "", err
		}
	}

	for _, p := range m.Programs {
		if !strings.HasPrefix(p.Package, "./") {
			continue
		}
		if err := addSources(sum, filepath.Join(root, m.Dir, p.Package)); err != nil {
			return "", err
		}
	}

	fmt.Fprintln(sum, runtime.GOARCH, m.Programs, m.flags(""))

	return filepath.Join(dir, fmt.Sprintf("%s-%x", m.Name, sum.Sum(nil)[:6])), nil
}

// addSources adds all Go files in dir and below to sum, but for tests.
func addSources(sum io.Writer, dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".go") ||
			strings.HasSuffix(path, "_test.go") {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		return addFile(sum, name, path)
	})
}

func addFile(sum io.Writer, label, path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(sum, "%s %d\n%s", label, len(text), text)
	return err
}

func (m Module) modFile() string {
	if m.ModFile == "" {
		return "go.mod"
	}
	return m.ModFile
}

// build builds the programs into tmp.
func (m Module) build(ctx context.Context, out io.Writer, tmp string) error {
	root, err := Root(ctx)
	if err != nil {
		return err
	}

	dir := filepath.Join(root, m.Dir)
	version, err := m.Version(ctx)
	if err != nil {
		return err
	}

	for _, p := range m.Programs {
		start := time.Now()
		args := slices.Concat([]string{"build", "-o", filepath.Join(tmp, p.Name)}, m.flags(version),
			[]string{p.Package})
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")

		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("build %s: %w\n%s", p.Package, err, text)
		}

		fmt.Fprintf(out, "%-44s %6.1f s\n", p.Name, time.Since(start).Seconds())
	}

	return nil
}

// flags are flags of go build. Without a version from the linker, a binary of
// Kubernetes reports v0.0.0. The compiler takes an eighth less without the debugging
// information that the linker leaves out.
func (m Module) flags(version string) []string {
	flags := []string{
		"-trimpath", "-buildvcs=false",
		"-gcflags=all=-dwarf=false",
		"-ldflags=-s -w -X k8s.io/component-base/version.gitVersion=" + version,
	}
	if m.ModFile != "" {
		flags = append(flags, "-modfile="+m.ModFile)
	}
	if m.Tags != "" {
		flags = append(flags, "-tags="+m.Tags)
	}
	return flags
}

// Version returns the version of Release that the module requires, or nothing
// if it has none.
func (m Module) Version(ctx context.Context) (string, error) {
	if m.Release == "" {
		return "", nil
	}

	root, err := Root(ctx)
	if err != nil {
		return "", err
	}

	path := filepath.Join(root, m.Dir, m.modFile())
	text, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}

	requires := regexp.MustCompile(`(?m)^(?:require)?\s*` + regexp.QuoteMeta(m.Release) + ` (v\S+)`)
	found := requires.FindSubmatch(text)
	if found == nil {
		return "", fmt.Errorf("%s: does not require %s", path, m.Release)
	}

	return string(found[1]), nil
}

// Root is the checkout that the working directory is in.
func Root(ctx context.Context) (string, error) {
	out, err := exec.CommandContext(ctx, "go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOMOD: %w", err)
	}
	return filepath.Dir(strings.TrimSpace(string(out))), nil
}

// CacheDir is where all that is slow to build is kept.
func CacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache: %w\nhint: set HOME or XDG_CACHE_HOME", err)
	}
	return filepath.Join(dir, "loam"), nil
}
