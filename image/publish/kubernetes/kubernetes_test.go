package kubernetes

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content/oci"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/meter"
)

// program returns the least that is a program for a machine, with a text in it.
func program(t testing.TB, machine elf.Machine, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	err := binary.Write(&b, binary.LittleEndian, elf.Header64{
		Ident: [elf.EI_NIDENT]byte{
			0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT),
		},
		Type:    uint16(elf.ET_EXEC),
		Machine: uint16(machine),
		Version: uint32(elf.EV_CURRENT),
		Ehsize:  64,
	})
	if err != nil {
		t.Fatal(err)
	}
	return append(b.Bytes(), text...)
}

// image pushes an image and describes it. Its name is in no annotation.
func image(t testing.TB, to *oci.Store, arch, text string) ocispec.Descriptor {
	t.Helper()
	layer := push(t, to, ocispec.MediaTypeImageLayer, []byte(text))
	config := push(t, to, ocispec.MediaTypeImageConfig, encode(t, ocispec.Image{
		Platform: ocispec.Platform{Architecture: arch, OS: "linux"},
		RootFS:   ocispec.RootFS{Type: "layers", DiffIDs: []digest.Digest{layer.Digest}},
	}))
	return push(t, to, ocispec.MediaTypeImageManifest, encode(t, ocispec.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest,
		Config:    config,
		Layers:    []ocispec.Descriptor{layer},
	}))
}

func encode(t testing.TB, value any) []byte {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func push(t testing.TB, to *oci.Store, mediaType string, text []byte) ocispec.Descriptor {
	t.Helper()
	d := ocispec.Descriptor{
		MediaType: mediaType,
		Digest:    digest.FromBytes(text),
		Size:      int64(len(text)),
	}
	if err := to.Push(t.Context(), d, bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	return d
}

const (
	pauseName   = "registry.k8s.io/pause:3.10.2"
	corednsName = "registry.k8s.io/coredns/coredns:v1.14.6"
)

// upstream makes a directory as an operator has it: the archives of Kubernetes
// and etcd unpacked, a layout with pause for two architectures, and an archive
// with CoreDNS.
func upstream(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range bundle.KubernetesPrograms() {
		place := "kubernetes/server/bin/" + name
		if strings.HasPrefix(name, "etcd") {
			place = "etcd-v3.7.3-linux-amd64/" + name
		}
		write(t, filepath.Join(dir, place), program(t, elf.EM_X86_64, "is v1.37.2, "+name))
	}
	write(t, filepath.Join(dir, "kubernetes/server/bin/kube-apiserver.tar"), []byte("not an archive"))

	layout := filepath.Join(dir, "images/pause")
	store := newLayout(t, layout)
	index := push(t, store, ocispec.MediaTypeImageIndex, encode(t, ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{
			onPlatform(image(t, store, "arm64", "pause for arm64"), "linux", "arm64"),
			onPlatform(image(t, store, "unknown", "an attestation"), "unknown", "unknown"),
			onPlatform(image(t, store, "amd64", "pause for amd64"), "linux", "amd64"),
		},
	}))
	tag(t, store, index, pauseName)

	archived := filepath.Join(t.TempDir(), "coredns")
	store = newLayout(t, archived)
	tag(t, store, image(t, store, "amd64", "coredns"), corednsName)
	archive(t, archived, filepath.Join(dir, "coredns.tar"))
	return dir
}

func newLayout(t testing.TB, dir string) *oci.Store {
	t.Helper()
	store, err := oci.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func tag(t testing.TB, store *oci.Store, d ocispec.Descriptor, name string) {
	t.Helper()
	if err := store.Tag(t.Context(), d, name); err != nil {
		t.Fatal(err)
	}
}

func onPlatform(d ocispec.Descriptor, os, arch string) ocispec.Descriptor {
	d.Platform = &ocispec.Platform{OS: os, Architecture: arch}
	return d
}

func write(t testing.TB, name string, text []byte) {
	t.Helper()
	err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, text, 0o644))
	if err != nil {
		t.Fatal(err)
	}
}

// archive packs a directory as tar.
func archive(t testing.TB, dir, to string) {
	t.Helper()
	f, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(f)
	if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func makeBundle(t testing.TB, from string) (Bundle, error) {
	t.Helper()
	return Make(context.WithoutCancel(t.Context()), Params{
		Version: "1.37.2",
		Arch:    "amd64",
		From:    from,
		Work:    t.TempDir(),
		Report:  meter.None,
	})
}

func mustMake(t testing.TB, from string) (Bundle, []byte) {
	t.Helper()
	b, err := makeBundle(t, from)
	if err != nil {
		t.Fatal(hint.Text(err))
	}
	pack, err := os.ReadFile(b.Pack)
	if err != nil {
		t.Fatal(err)
	}
	return b, pack
}

// contents unpacks the files of a bundle.
func contents(t testing.TB, b Bundle, pack []byte) map[string]string {
	t.Helper()
	texts := map[string]string{}
	for _, f := range b.Index.Files {
		for i, c := range f.Chunks {
			plain, err := c.Unpack(pack[c.At:][:c.Len], f.PlainLen(i))
			if err != nil {
				t.Fatal(err)
			}
			texts[f.Name] += string(plain)
		}
	}
	return texts
}

func TestFilesOfUpstreamMakeABundle(t *testing.T) {
	b, pack := mustMake(t, upstream(t))
	texts := contents(t, b, pack)

	var index ocispec.Index
	if err := json.Unmarshal([]byte(texts["images/index.json"]), &index); err != nil {
		t.Fatal(err)
	}
	var names, layers []string
	for _, d := range index.Manifests {
		names = append(names, d.Annotations[ocispec.AnnotationRefName])
		var m ocispec.Manifest
		text := texts["images/blobs/sha256/"+d.Digest.Encoded()]
		if err := json.Unmarshal([]byte(text), &m); err != nil {
			t.Fatal(err)
		}
		layers = append(layers, texts["images/blobs/sha256/"+m.Layers[0].Digest.Encoded()])
	}
	if diff := cmp.Diff([]string{corednsName, pauseName}, names); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"coredns", "pause for amd64"}, layers); diff != "" {
		t.Error(diff)
	}

	// 7 programs, 3 blobs of 2 images, and 2 files of the layout.
	if len(texts) != 15 || !strings.HasSuffix(texts["bin/kubelet"], "is v1.37.2, kubelet") {
		t.Errorf("%d files", len(texts))
	}
}

func TestEqualFilesMakeEqualBundles(t *testing.T) {
	dir := upstream(t)
	b, pack := mustMake(t, dir)
	moved := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.CopyFS(moved, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	again, packAgain := mustMake(t, moved)
	if diff := cmp.Diff(b.Index, again.Index); diff != "" || !bytes.Equal(pack, packAgain) {
		t.Errorf("packs equal: %t; index:\n%s", bytes.Equal(pack, packAgain), diff)
	}
}

func TestMakeRefuses(t *testing.T) {
	bin := "kubernetes/server/bin/"
	for name, tc := range map[string]struct {
		change func(t *testing.T, dir string)
		want   []string
	}{
		"a program and an image that are missing": {
			func(t *testing.T, dir string) { remove(t, dir, bin+"kubelet", "coredns.tar") },
			[]string{
				"kubelet: there is no such program",
				"image coredns: the layouts have only " + pauseName,
				"put the programs of Kubernetes 1.37.2 and etcd for amd64 there",
			},
		},
		"archives without a layout": {
			func(t *testing.T, dir string) { remove(t, dir, "images/pause", "coredns.tar") },
			[]string{"image pause: no OCI layout, and none in", "kube-apiserver.tar"},
		},
		"a program of another version": {
			func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, bin+"kubelet"), program(t, elf.EM_X86_64, "v1.36.2"))
			},
			[]string{"kubelet: not of version 1.37.2"},
		},
		"a program of a later version that begins like this one": {
			func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, bin+"kubelet"), program(t, elf.EM_X86_64, "v1.37.20\x00"))
			},
			[]string{"kubelet: not of version 1.37.2"},
		},
		"a program for another architecture": {
			func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, bin+"kubelet"), program(t, elf.EM_AARCH64, "v1.37.2"))
			},
			[]string{"kubelet: a program for EM_AARCH64, want EM_X86_64"},
		},
		"a script": {
			func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, bin+"kubelet"), []byte("#!/bin/sh\n"))
			},
			[]string{"kubelet: not a program for Linux"},
		},
		"a program twice": {
			func(t *testing.T, dir string) {
				write(t, filepath.Join(dir, "old/kubelet"), program(t, elf.EM_X86_64, "v1.37.2"))
			},
			[]string{"kubelet: there are 2, ", "old/kubelet"},
		},
		"an image for another architecture": {
			func(t *testing.T, dir string) {
				remove(t, dir, "coredns.tar")
				store := newLayout(t, filepath.Join(dir, "images/coredns"))
				tag(t, store, image(t, store, "arm64", "coredns"), corednsName)
			},
			[]string{"image " + corednsName + ": it is for arm64, not for amd64"},
		},
		"an image twice": {
			func(t *testing.T, dir string) {
				store := newLayout(t, filepath.Join(dir, "images/older"))
				tag(t, store, image(t, store, "amd64", "old"), "registry.k8s.io/pause:3.9")
			},
			[]string{"image pause: there are 2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := upstream(t)
			tc.change(t, dir)
			_, err := makeBundle(t, dir)
			if fault.Of(err) != fault.ContentMissing {
				t.Errorf("code %s", fault.Of(err))
			}
			for _, want := range tc.want {
				if err == nil || !strings.Contains(hint.Text(err), want) {
					t.Errorf("error %s, want %q", hint.Text(err), want)
				}
			}
		})
	}
}

func remove(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSourcesThatAreNone(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	for from, want := range map[string]fault.Code{
		"ftp://files.example/kubernetes":                         fault.Usage,
		filepath.Join(t.TempDir(), "absent"):                     fault.FileMissing,
		"oci+http://" + server.Listener.Addr().String() + "/a:1": fault.ServerUnreachable,
	} {
		if _, err := makeBundle(t, from); fault.Of(err) != want {
			t.Errorf("%s: %v, code %s, want %s", from, err, fault.Of(err), want)
		}
	}
}

// TestAVersionAcrossTheBoundaryOfReads is found.
func TestAVersionAcrossTheBoundaryOfReads(t *testing.T) {
	text := []byte("v1.37.2")
	for _, at := range []int{0, 1<<20 - 3, 1<<20 + 4, 2<<20 - 1, 3 << 20} {
		content := slices.Concat(make([]byte, at), text, make([]byte, 100))
		has, err := contains(bytes.NewReader(content), text)
		if err != nil || !has {
			t.Errorf("at %d: %t, %v", at, has, err)
		}
		has, err = contains(bytes.NewReader(content[:at+len(text)-1]), text)
		if err != nil || has {
			t.Errorf("cut off at %d: %t, %v", at, has, err)
		}
		content[at+len(text)] = '0'
		has, err = contains(bytes.NewReader(content), text)
		if err != nil || has {
			t.Errorf("another version at %d: %t, %v", at, has, err)
		}
	}
}
