package bundle

import (
	"bytes"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// kubernetesFiles are the files of a small bundle. One program has more than a
// chunk, one image is in it twice.
func kubernetesFiles() map[string][]byte {
	noise := make([]byte, MaxChunkSize+3)
	rand.New(rand.NewSource(1)).Read(noise)
	files := map[string][]byte{
		"images/index.json":      []byte(`{"schemaVersion": 2}`),
		"images/oci-layout":      []byte(`{"imageLayoutVersion": "1.0.0"}`),
		"images/blobs/sha256/ab": bytes.Repeat([]byte("pause "), 10000),
		"images/blobs/sha256/ac": bytes.Repeat([]byte("pause "), 10000),
	}
	for _, name := range KubernetesPrograms() {
		files["bin/"+name] = []byte("program " + name)
	}
	files["bin/kubelet"] = noise
	return files
}

func writeKubernetes(t testing.TB) (Kubernetes, []byte) {
	t.Helper()
	in := KubernetesSources{Version: "1.37.2", Arch: "amd64", Files: map[string]Source{}}
	for name, content := range kubernetesFiles() {
		in.Files[name] = source(content)
	}
	var pack bytes.Buffer
	ix, err := WriteKubernetes(&pack, in)
	if err != nil {
		t.Fatal(err)
	}
	return ix, pack.Bytes()
}

func TestKubernetesFilesComeBack(t *testing.T) {
	ix, pack := writeKubernetes(t)
	text, err := ix.Encode()
	if err != nil {
		t.Fatal(err)
	}
	ix, err = ParseKubernetes(text)
	if err != nil {
		t.Fatal(err)
	}

	have := map[string][]byte{}
	for _, f := range ix.Files {
		have[f.Name] = unpack(t, f.Part, pack)
		if f.Executable() != strings.HasPrefix(f.Name, "bin/") {
			t.Errorf("%s: executable %t", f.Name, f.Executable())
		}
	}
	if diff := cmp.Diff(kubernetesFiles(), have); diff != "" {
		t.Error(diff[:min(len(diff), 1000)])
	}
	if int64(len(pack)) != ix.Pack.Size || ix.Pack.Name != "kubernetes-1.37.2-amd64.pack" {
		t.Errorf("pack %+v of %d bytes", ix.Pack, len(pack))
	}
}

func TestEqualKubernetesSourcesGiveEqualBytes(t *testing.T) {
	ix, pack := writeKubernetes(t)
	again, packAgain := writeKubernetes(t)
	if diff := cmp.Diff(ix, again); diff != "" || !bytes.Equal(pack, packAgain) {
		t.Errorf("packs equal: %t; index:\n%s", bytes.Equal(pack, packAgain), diff)
	}
}

func TestKubernetesValidateRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(ix *Kubernetes)
		err    string
	}{
		{"another kind", func(ix *Kubernetes) { ix.Kind = "" }, `this program knows "kubernetes"`},
		{"another format", func(ix *Kubernetes) { ix.Format = 2 }, "format 2"},
		{"a version with a v", func(ix *Kubernetes) { ix.Version = "v1.37.2" }, "such as 1.37.2"},
		{"a version that is a path", func(ix *Kubernetes) { ix.Version = "../1" }, "such as 1.37.2"},
		{"another architecture", func(ix *Kubernetes) { ix.Arch = "riscv64" }, "want amd64 or arm64"},
		{"the pack of another", func(ix *Kubernetes) { ix.Pack.Name = "a.pack" }, "want kubernetes-1.37.2"},
		{
			"a program too few",
			func(ix *Kubernetes) { ix.Files = ix.Files[1:] },
			"bin: programs etcdutl, kube-apiserver",
		},
		{
			"a program that nothing starts",
			func(ix *Kubernetes) { ix.Files[1].Name = "bin/etcdctl" },
			"bin: programs etcd, etcdctl",
		},
		{
			"a name that leads out of it",
			func(ix *Kubernetes) { ix.Files[0].Name = "bin/../../etcd" },
			"want a program in bin",
		},
		{
			"the description of a bundle on a node",
			func(ix *Kubernetes) { ix.Files[0].Name = "bundle.json" },
			"want a program in bin",
		},
		{
			"a name twice",
			func(ix *Kubernetes) { ix.Files[1].Name = ix.Files[0].Name },
			`files: "bin/etcd" after "bin/etcd"`,
		},
		{
			"chunks that are larger than a node can take",
			func(ix *Kubernetes) { ix.Files[0].ChunkSize = 2 * MaxChunkSize },
			"bin/etcd: chunkSize 2097152",
		},
		{
			"a chunk too few",
			func(ix *Kubernetes) { ix.Files[0].Chunks = nil },
			"bin/etcd: chunks: 0, want 1",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ix, _ := writeKubernetes(t)
			ix.Files = slices.Clone(ix.Files)
			tc.change(&ix)
			if err := ix.Validate(); err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

// TestReleasesHaveTheirChunks: nodes of earlier releases would overlook the
// field.
func TestReleasesHaveTheirChunks(t *testing.T) {
	ix, _ := write(t, testSources())
	ix.Root.ChunkSize = ChunkSize / 2
	if err := ix.Validate(); err == nil || !strings.Contains(err.Error(), "chunkSize 32768") {
		t.Errorf("error %v", err)
	}
}
