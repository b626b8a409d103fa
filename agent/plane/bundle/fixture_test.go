package bundle

import (
	"bytes"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/durable"
	index "github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/test/files"
)

var now = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

// repo is a repository in which bundles are published.
type repo struct {
	dir  string
	keys publish.Keys
}

func newRepo(t testing.TB) repo {
	t.Helper()
	r := repo{dir: t.TempDir()}
	var err error
	r.keys, err = publish.NewKeys(filepath.Join(t.TempDir(), "keys"), 1)
	if err == nil {
		err = publish.Init(r.dir, r.keys, 1, publish.DefaultExpiries(), now)
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// chunk is the length of the chunks of bundles.
const chunk = index.MaxChunkSize

// texts are the files of a small bundle. Its etcd has three chunks, which all
// versions share, and its kubelet two, of which versions share the first.
func texts(version string) map[string][]byte {
	texts := map[string][]byte{
		"images/index.json":      []byte(layoutIndex),
		"images/oci-layout":      []byte(`{"imageLayoutVersion": "1.0.0"}`),
		"images/blobs/sha256/00": []byte("pause"),
	}
	for _, name := range Programs {
		texts["bin/"+name] = []byte(name + " of " + version)
	}
	texts["bin/etcd"] = noise(1, 2*chunk+100)
	texts["bin/kubelet"] = append(noise(2, chunk), "kubelet of "+version...)
	return texts
}

// noise is what does not compress.
func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

// publish publishes a bundle and returns the path of its pack.
func (r repo) publish(t testing.TB, version, arch string, texts map[string][]byte) string {
	t.Helper()
	in := index.KubernetesSources{
		Version: version,
		Arch:    arch,
		Files:   map[string]index.Source{},
	}
	for name, text := range texts {
		in.Files[name] = index.Source{ReaderAt: bytes.NewReader(text), Size: int64(len(text))}
	}

	file := filepath.Join(t.TempDir(), "pack")
	pack, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer pack.Close()
	ix, err := index.WriteKubernetes(pack, in)
	if err == nil {
		_, err = publish.PublishKubernetes(t.Context(), r.dir, r.keys, ix, file,
			publish.DefaultExpiries(), now, meter.None)
	}
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(r.dir, ix.Pack.Name)
}

// source is the repository as a node with machine.yaml knows it.
func (r repo) source(t testing.TB) Source {
	t.Helper()
	root, err := os.ReadFile(filepath.Join(r.dir, "metadata/1.root.json"))
	if err != nil {
		t.Fatal(err)
	}
	return Source{Ref: r.dir, Root: root, Keep: memory{}}
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

func newStore(t testing.TB) Store {
	t.Helper()
	return NewStore(durable.New(files.Root(t), nil))
}

func request(version string) Request {
	return Request{
		Version: version,
		Arch:    "amd64",
		Now:     now,
		Log:     zap.NewNop(),
	}
}

// checkBundle compares a bundle with the texts that were published.
func checkBundle(t testing.TB, b Bundle, texts map[string][]byte) {
	t.Helper()
	if err := b.Verify(t.Context()); err != nil {
		t.Error(err)
	}
	for name, want := range texts {
		have, err := os.ReadFile(filepath.Join(b.Dir, name))
		if err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s: %d bytes, %v, want %d", name, len(have), err, len(want))
		}
	}
	if len(b.Files) != len(texts) {
		t.Errorf("%d files, want %d", len(b.Files), len(texts))
	}
}
