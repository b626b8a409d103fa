package publish

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/repository"
	"github.com/loam-os/loam/image/update"
)

var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// fixture is a repository with releases, and a node that follows it.
type fixture struct {
	testing.TB
	dir  string
	keys Keys
	node memory
	now  time.Time
}

// memory implements [repository.Records].
type memory map[string][]byte

func (m memory) Read(name string) ([]byte, error) {
	if data, ok := m[name]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

func (m memory) Write(name string, data []byte) error {
	m[name] = bytes.Clone(data)
	return nil
}

func newFixture(t testing.TB) *fixture {
	t.Helper()
	f := &fixture{
		TB:   t,
		dir:  t.TempDir(),
		node: memory{},
		now:  start,
	}

	f.keys = f.newKeys(1)
	f.ok(Init(f.dir, f.keys, 1, DefaultExpiries(), f.now))
	return f
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) newKeys(roots int) Keys {
	f.Helper()
	keys, err := NewKeys(filepath.Join(f.TempDir(), "keys"), roots)
	f.ok(err)
	return keys
}

// bundle makes the files of a small release.
func (f *fixture) bundle(version string) update.Bundle {
	f.Helper()
	dir := f.TempDir()
	b := update.Bundle{
		Pack:   filepath.Join(dir, "pack"),
		Root:   filepath.Join(dir, "root"),
		Verity: filepath.Join(dir, "verity"),
		UKI:    filepath.Join(dir, "efi"),
	}

	for _, file := range []string{b.Root, b.Verity, b.UKI} {
		f.ok(os.WriteFile(file,
			bytes.Repeat([]byte(filepath.Base(file)+" of "+version+"\n"), 8000), 0o644))
	}

	f.ok(b.Write(bundle.Sources{
		ImageID:  "loam-node-os",
		Version:  version,
		Arch:     "amd64",
		Profile:  "cloud",
		Epoch:    1,
		RootHash: strings.Repeat("a", 32) + strings.Repeat("b", 32),
	}))

	return b
}

func (f *fixture) publish(version string) repository.Release {
	f.Helper()
	r, err := f.tryPublish(f.bundle(version))
	f.ok(err)
	return r
}

// tryPublish publishes a bundle, and returns the error.
func (f *fixture) tryPublish(b update.Bundle) (repository.Release, error) {
	f.Helper()
	return Publish(f.Context(), f.dir, f.keys, b, DefaultExpiries(), f.now, meter.None)
}

// refresh signs the repository again.
func (f *fixture) refresh(keys Keys, now time.Time) error {
	f.Helper()
	return Refresh(f.Context(), f.dir, keys, DefaultExpiries(), now, meter.None)
}

func (f *fixture) read(name string) []byte {
	f.Helper()
	data, err := os.ReadFile(filepath.Join(f.dir, name))
	f.ok(err)
	return data
}

func (f *fixture) write(name string, data []byte) {
	f.Helper()
	f.ok(os.WriteFile(filepath.Join(f.dir, name), data, 0o644))
}

func (f *fixture) store() repository.Store {
	f.Helper()
	s, err := repository.Open(f.dir)
	f.ok(err)
	return s
}

// update is what the node does, which trusts the first root.
func (f *fixture) update() ([]repository.Release, error) {
	f.Helper()
	news, err := repository.Update(f.Context(), f.store(), f.node, f.read("metadata/1.root.json"),
		repository.Clock{Now: f.now})
	return news.Releases, err
}

func (f *fixture) updated() []repository.Release {
	f.Helper()
	list, err := f.update()
	f.ok(err)
	return list
}

// copy copies the repository, for a test that plays it back later.
func (f *fixture) copy() string {
	f.Helper()
	dir := f.TempDir()
	f.ok(os.CopyFS(dir, os.DirFS(f.dir)))
	return dir
}
