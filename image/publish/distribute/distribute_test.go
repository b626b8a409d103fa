package distribute_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/publish/distribute"
	"github.com/loam-os/loam/image/repository"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/updates"
)

// node implements [repository.Records], with what a node does with a
// repository.
type node map[string][]byte

func (n node) Read(name string) ([]byte, error) {
	if data, ok := n[name]; ok {
		return data, nil
	}
	return nil, fs.ErrNotExist
}

func (n node) Write(name string, data []byte) error {
	n[name] = bytes.Clone(data)
	return nil
}

// builder has a repository.
type builder struct {
	testing.TB
	updates.Repository
}

func newBuilder(t testing.TB) builder { return builder{t, updates.New(t)} }

func (b builder) ok(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// release publishes a small one.
func (b builder) release(version string) {
	b.Helper()
	var files []string
	for _, part := range []string{"root", "verity", "efi"} {
		files = append(files, filepath.Join(b.TempDir(), part))
		b.ok(os.WriteFile(files[len(files)-1],
			bytes.Repeat([]byte(part+" of "+version+"\n"), 8000), 0o644))
	}

	b.Publish(bundle.Sources{
		ImageID:  "loam-node-os",
		Version:  version,
		Arch:     "amd64",
		Profile:  "cloud",
		RootHash: strings.Repeat("a", 32) + strings.Repeat("b", 32),
	}, files[0], files[1], files[2])
}

// to publishes to a place, and says which files were copied. All that was begun
// must have been reported to its end.
func (b builder) to(place string) (copied []string) {
	b.Helper()
	l := &listener{left: map[string]int64{}}
	b.ok(distribute.To(b.Context(), b.Dir, place, distribute.Login{}, l))

	_, verified := l.left["verify"]
	if !verified {
		b.Error("no progress of the verification")
	}
	for part, left := range l.left {
		if left != 0 {
			b.Errorf("%s: %d bytes left at the end", part, left)
		}
	}
	return l.copied
}

// listener implements [distribute.Listener], and records what it is told.
type listener struct {
	copied []string
	// left is how many bytes each part had left last.
	left map[string]int64
}

// Copied implements [distribute.Listener].
func (l *listener) Copied(name string, _ int64) { l.copied = append(l.copied, name) }

// Progress implements [distribute.Listener].
func (l *listener) Progress(part string, done, all int64) { l.left[part] = all - done }

// sees are the versions that a node sees in a store, of the newest of which it
// reads all of the pack.
func (b builder) sees(store repository.Store) (versions []string) {
	b.Helper()
	news, err := repository.Update(b.Context(), store, node{}, b.Root(),
		repository.Clock{Now: time.Now()})

	b.ok(err)
	for _, r := range news.Releases {
		versions = append(versions, r.Version)
		ix, err := r.Fetch(b.Context(), store)
		b.ok(err)
		want, err := os.ReadFile(filepath.Join(b.Dir, ix.Pack.Name))
		b.ok(err)

		for _, span := range [][2]int64{
			{0, ix.Pack.Size},
			{ix.Pack.Size / 2, 10},
			{ix.Pack.Size - 1, 1},
		} {
			got, err := store.Range(b.Context(), ix.Pack.Name, span[0], span[1])
			b.ok(err)
			text, err := io.ReadAll(got)
			b.ok(errors.Join(err, got.Close()))

			if !bytes.Equal(text, want[span[0]:span[0]+span[1]]) {
				b.Errorf("%s, %v: not what was published", ix.Pack.Name, span)
			}
		}

		if _, err := store.Range(b.Context(), ix.Pack.Name, ix.Pack.Size, 1); err == nil {
			b.Error("a byte after the end can be read")
		}
	}

	_, err = store.Get(b.Context(), "metadata/9.root.json", 1<<20)
	if !errors.Is(err, repository.ErrNotFound) {
		b.Errorf("a file that is not there: %v", err)
	}

	return versions
}

// TestPublishAndRead publishes a release, and then another, to where nodes
// read.
func TestPublishAndRead(t *testing.T) {
	for name, place := range map[string]func(t *testing.T) string{
		"directory": func(t *testing.T) string { return filepath.Join(t.TempDir(), "usb") },
		"registry": func(t *testing.T) string {
			return "oci+http://" + cluster.StartRegistry(t, cluster.RegistryOptions{}).Address() +
				"/plant/updates:stable"
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuilder(t)
			to := place(t)
			b.release("1.0.0")
			b.to(to)

			if again := b.to(to); len(again) > 0 {
				t.Errorf("copied once more: %v", again)
			}

			before, err := repository.Open(to)
			b.ok(err)
			if got := b.sees(before); len(got) != 1 {
				t.Errorf("releases %v", got)
			}

			b.release("2.0.0")
			for _, name := range b.to(to) {
				if strings.Contains(name, "_1.0.0_") {
					t.Errorf("%s is copied once more", name)
				}
			}

			after, err := repository.Open(to)
			b.ok(err)
			if got := b.sees(after); len(got) != 2 {
				t.Errorf("releases %v", got)
			}

			if name == "registry" { // What is read at once is of one state.
				if got := b.sees(before); len(got) != 1 {
					t.Errorf("the state before has releases %v", got)
				}
			}
		})
	}
}

// TestADamagedRepositoryIsNotCopied: not even to where nothing is yet.
func TestADamagedRepositoryIsNotCopied(t *testing.T) {
	const pack = "loam-node-os_1.0.0_x86-64.pack"
	b := newBuilder(t)
	b.release("1.0.0")
	intact := filepath.Join(t.TempDir(), "intact")
	b.to(intact)
	b.ok(os.Truncate(filepath.Join(b.Dir, pack), 10))

	registry := "oci+http://" + cluster.StartRegistry(t, cluster.RegistryOptions{}).Address() +
		"/plant/updates:stable"
	fresh := filepath.Join(t.TempDir(), "fresh")
	for _, to := range []string{intact, fresh, registry} {
		l := &listener{left: map[string]int64{}}
		err := distribute.To(t.Context(), b.Dir, to, distribute.Login{}, l)
		if len(l.copied) > 0 {
			t.Errorf("%s: %v are copied", to, l.copied)
		}
		if err == nil || !strings.Contains(err.Error(), pack+": 10 bytes; want ") {
			t.Errorf("%s: error %v", to, err)
		}
	}

	if _, err := os.Stat(fresh); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", fresh, err)
	}
	if _, err := publish.Verify(t.Context(), intact, meter.None); err != nil {
		t.Error(err)
	}
}

// TestADamagedCopyIsRepaired from an intact repository. Only damaged files are
// copied.
func TestADamagedCopyIsRepaired(t *testing.T) {
	b := newBuilder(t)
	b.release("1.0.0")
	to := t.TempDir()
	b.to(to)

	files, err := publish.Verify(t.Context(), b.Dir, meter.None)
	b.ok(err)
	for _, f := range files {
		file := filepath.Join(to, f.Name)
		content, err := os.ReadFile(file)
		b.ok(err)
		for name, damaged := range map[string][]byte{
			"another byte": append([]byte{content[0] ^ 1}, content[1:]...),
			"cut off":      content[:len(content)-1],
		} {
			b.ok(os.WriteFile(file, damaged, 0o644))
			if copied := b.to(to); !slices.Equal(copied, []string{f.Name}) {
				t.Errorf("%s, %s: copied %v", f.Name, name, copied)
			}
		}
	}

	if _, err := publish.Verify(t.Context(), to, meter.None); err != nil {
		t.Error(err)
	}
}

func TestPublishRefuses(t *testing.T) {
	b := newBuilder(t)

	for _, test := range []struct{ dir, to, err string }{
		{t.TempDir(), t.TempDir(), "makes a"},
		{b.Dir, b.Dir, "it is the repository itself"},
		{b.Dir, filepath.Join(b.Dir, "copy"), "it is in the repository itself"},
		{b.Dir, filepath.Join(b.Dir, "metadata"), "it is in the repository itself"},
		{b.Dir, filepath.Join(b.Dir, "metadata/1.root.json"), "1.root.json: not a directory"},
		{b.Dir, "https://example.org/updates", "hint: a web server needs the directory only"},
		{b.Dir, "oci://registry.example", "want oci://HOST/NAME:TAG"},
		{b.Dir, "oci:///updates", "want oci://HOST/NAME:TAG"},
		{b.Dir, "oci://user@registry.example/updates:1", "want oci://HOST/NAME:TAG"},
		{b.Dir, "oci://registry.example/updates@sha256:aa", "want oci://HOST/NAME:TAG"},
		{b.Dir, "oci+http://127.0.0.1:1/updates:1", "connection refused"},
	} {
		err := distribute.To(t.Context(), test.dir, test.to, distribute.Login{},
			&listener{left: map[string]int64{}})
		if err == nil || !strings.Contains(hint.Text(err), test.err) {
			t.Errorf("%s: error %v, want %q", test.to, err, test.err)
		}
	}
}

// TestAnArtifactOfAnotherTypeIsNone reads an image.
func TestAnArtifactOfAnotherTypeIsNone(t *testing.T) {
	r := cluster.StartRegistry(t, cluster.RegistryOptions{})
	if _, err := r.PushImage("plant/image:1", cluster.Image{}); err != nil {
		t.Fatal(err)
	}

	store, err := repository.Open("oci+http://" + r.Address() + "/plant/image:1")
	if err != nil {
		t.Fatal(err)
	}

	if _, err := store.Get(t.Context(), "metadata/timestamp.json", 1<<20); err == nil ||
		!strings.Contains(err.Error(), "not a repository") {
		t.Errorf("error %v", err)
	}

	store, err = repository.Open("oci+http://" + r.Address() + "/plant/image:2")
	if err != nil {
		t.Fatal(err)
	}

	_, err = store.Get(t.Context(), "metadata/timestamp.json", 1<<20)
	if !errors.Is(err, repository.ErrNotFound) {
		t.Errorf("a tag that is not there: %v", err)
	}
}
