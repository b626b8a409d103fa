package cluster

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var hello = Layer{
	"bin/hello": {Content: []byte("#!/bin/sh\necho hello\n"), Mode: 0o755},
	"bin/hi":    {Link: "hello"},
	"etc/word":  {Content: []byte("loam")},
}

func TestRegistry(t *testing.T) {
	for _, row := range []struct {
		name    string
		options RegistryOptions
	}{
		{"plain HTTP gives back what was pushed", RegistryOptions{}},
		{"TLS on ::1 gives back what was pushed", RegistryOptions{Bind: "::1", TLS: true}},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := StartRegistry(t, row.options)
			image := Image{Layers: []Layer{hello, {"etc/word": {Content: []byte("moss")}}}}
			pushed := r.Push(t, "test/hello:v1", image)
			if again := r.Push(t, "test/hello:v1", image); again != pushed {
				t.Errorf("the same image has digests %s and %s", pushed, again)
			}

			r.Stop(t)
			r.Start(t)
			pullHello(t, r, "test/hello", pushed)

			if byTag := digest(r.Get(t, "test/hello/manifests/v1")); byTag != pushed {
				t.Errorf("the tag names %s, not %s", byTag, pushed)
			}
		})
	}
}

func TestIndexHasAnImageForEachArchitecture(t *testing.T) {
	r := StartRegistry(t, RegistryOptions{})
	pushed := r.PushIndex(t, "test/both:v1", Image{Arch: "amd64", Layers: []Layer{hello}},
		Image{Arch: "arm64", Layers: []Layer{hello}})
	var index Index
	decode(t, r.Get(t, "test/both/manifests/"+pushed), &index)

	var archs []string
	for _, d := range index.Manifests {
		archs = append(archs, d.Platform.Architecture)
		pullHello(t, r, "test/both", d.Digest)
	}
	if diff := cmp.Diff([]string{"amd64", "arm64"}, archs); diff != "" {
		t.Error(diff)
	}
}

// pullHello pulls an image whose first layer is hello.
func pullHello(t *testing.T, r *Registry, name, manifest string) {
	t.Helper()
	var m Manifest

	text := r.Get(t, name+"/manifests/"+manifest)
	if digest(text) != manifest {
		t.Errorf("manifest %s is %s", manifest, digest(text))
	}

	decode(t, text, &m)
	layer := r.Get(t, name+"/blobs/"+m.Layers[0].Digest)
	if digest(layer) != m.Layers[0].Digest {
		t.Errorf("blob %s is %s", m.Layers[0].Digest, digest(layer))
	}

	diff := cmp.Diff(
		[]string{"bin/hello 755 #!/bin/sh\necho hello\n", "bin/hi -> hello", "etc/word 644 loam"},
		unpack(t, layer),
	)
	if diff != "" {
		t.Error(diff)
	}

	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}

	decode(t, r.Get(t, name+"/blobs/"+m.Config.Digest), &config)
	if want := digest(must(hello.archive())(t)); config.RootFS.DiffIDs[0] != want {
		t.Errorf("diff ID %s, want %s", config.RootFS.DiffIDs[0], want)
	}
}

// unpack is a line for each file of a layer.
func unpack(t *testing.T, layer []byte) []string {
	t.Helper()
	archive, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}

	var lines []string
	for r := tar.NewReader(archive); ; {
		h, err := r.Next()
		if err == io.EOF {
			return lines
		}

		if err != nil {
			t.Fatal(err)
		}

		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}

		lines = append(lines, line(h, string(content)))
	}
}

func line(h *tar.Header, content string) string {
	if h.Typeflag == tar.TypeSymlink {
		return h.Name + " -> " + h.Linkname
	}
	return h.Name + " " + strconv.FormatInt(h.Mode, 8) + " " + content
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%T: %v", into, err)
	}
}
