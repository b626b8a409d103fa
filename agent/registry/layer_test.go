package registry

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
)

// pack makes a layer of members written as "dir/", "file=content", "symbolic ->
// target", "hard => target", "device!".
func pack(t testing.TB, members ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, m := range members {
		header := &tar.Header{Mode: 0o755}
		var text string
		if name, target, ok := strings.Cut(m, " -> "); ok {
			header.Typeflag = tar.TypeSymlink
			header.Name = name
			header.Linkname = target
		} else if name, target, ok := strings.Cut(m, " => "); ok {
			header.Typeflag = tar.TypeLink
			header.Name = name
			header.Linkname = target
		} else if name, ok := strings.CutSuffix(m, "!"); ok {
			header.Typeflag = tar.TypeFifo
			header.Name = name
		} else if strings.HasSuffix(m, "/") {
			header.Typeflag = tar.TypeDir
			header.Name = m
		} else {
			header.Name, text, _ = strings.Cut(m, "=")
			header.Typeflag = tar.TypeReg
			header.Size = int64(len(text))
		}

		if err := w.WriteHeader(header); err != nil {
			t.Fatalf("%s: %v", m, err)
		}
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatalf("%s: %v", m, err)
		}
	}

	if err := w.Close(); err != nil {
		t.Fatal(err)
	}

	return out.Bytes()
}

func unpackAll(t testing.TB, layers [][]byte) (*tree, error) {
	t.Helper()
	files := newTree()
	for i, layer := range layers {
		if err := files.add(i, bytes.NewReader(layer), digest.FromBytes(layer)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// content1 is a file of layers, read as Open would.
func content1(t *testing.T, layers [][]byte, name string) (string, error) {
	files, err := unpackAll(t, layers)
	if err != nil {
		return "", err
	}

	f, err := files.find(name)
	if err != nil {
		return "", err
	}

	a, err := openArchive(bytes.NewReader(layers[f.layer]))
	if err != nil {
		return "", err
	}
	defer a.Close()

	if err := a.seek(f.member); err != nil {
		return "", err
	}

	text, err := io.ReadAll(a)
	if digest.FromBytes(text) != f.digest || int64(len(text)) != f.size {
		t.Errorf("%s has digest %s and size %d, not as said", name, f.digest, f.size)
	}

	return string(text), err
}

// The first bytes determine the compression of a layer.
func TestCompressionOfLayers(t *testing.T) {
	plain := pack(t, "a=1")
	var gzipped, zstded bytes.Buffer
	g := gzip.NewWriter(&gzipped)

	z, err := zstd.NewWriter(&zstded)
	if err != nil {
		t.Fatal(err)
	}

	for _, w := range []io.WriteCloser{g, z} {
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}

	for _, layer := range [][]byte{plain, gzipped.Bytes(), zstded.Bytes()} {
		if got, err := content1(t, [][]byte{layer}, "/a"); err != nil || got != "1" {
			t.Errorf("%x…: %q, %v", layer[:4], got, err)
		}
	}
}

func TestDamagedLayerIsAnError(t *testing.T) {
	whole := pack(t, "a=1")
	want := digest.FromBytes(whole)
	for i := 0; i < len(whole); i += 7 {
		layer := bytes.Clone(whole)
		layer[i] ^= 1
		if err := newTree().add(0, bytes.NewReader(layer), want); !errors.Is(err, errDamaged) {
			t.Errorf("byte %d: error %v, want %v", i, err, errDamaged)
		}
	}

	for _, cut := range []int{0, 1, 600, len(whole) - 1} {
		err := newTree().add(0, bytes.NewReader(whole[:cut]), want)
		if !errors.Is(err, errDamaged) {
			t.Errorf("%d bytes of %d: error %v, want %v", cut, len(whole), err, errDamaged)
		}
	}
}

// Layers are untrusted input: reading one must not panic.
func FuzzLayer(f *testing.F) {
	f.Add(pack(f, "d/a=1", "l -> d", "h => d/a", "l/b=2", ".wh.d=", "d/.wh..wh..opq="), "/l/a")
	f.Fuzz(func(t *testing.T, layer []byte, name string) {
		files := newTree()
		if files.add(0, bytes.NewReader(layer), digest.FromBytes(layer)) == nil {
			_, _ = files.find("/" + name)
		}
	})
}
