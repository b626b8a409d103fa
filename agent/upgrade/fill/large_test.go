package fill

import (
	"bytes"
	"io"
	"testing"

	"github.com/loam-os/loam/image/bundle"
)

// TestLargeChunks fills a file with the chunks of 1 MiB that programs have: one is
// in another file of this machine, one is there already, and the last is short.
func TestLargeChunks(t *testing.T) {
	const m = bundle.MaxChunkSize
	content := noise(1, 3*m+77)
	files := map[string]bundle.Source{}
	for _, name := range bundle.KubernetesPrograms() {
		text := []byte(name)
		if name == "etcd" {
			text = content
		}
		files["bin/"+name] = bundle.Source{ReaderAt: bytes.NewReader(text), Size: int64(len(text))}
	}
	var pack bytes.Buffer
	ix, err := bundle.WriteKubernetes(&pack, bundle.KubernetesSources{
		Version: "1.37.2",
		Arch:    "amd64",
		Files:   files,
	})
	if err != nil {
		t.Fatal(err)
	}

	other := append(content[2*m:3*m:3*m], 1)
	local, err := Locate(bytes.NewReader(other), int64(len(other)), m)
	if err != nil {
		t.Fatal(err)
	}

	target := bytesDevice(make([]byte, len(content)))
	copy(target, content[:m])
	j := Job{
		Target:  target,
		Part:    ix.Files[0].Part,
		Locals:  []Local{local},
		Sources: Sources{Pack: &counted{packed: pack.Bytes(), left: -1}},
	}
	if err := j.Run(t.Context()); err != nil {
		t.Fatal(err)
	}

	want := Stats{Kept: m, Local: m, Fetched: m + 77, Written: 2*m + 77}
	if j.Stats != want || !bytes.Equal(target, content) {
		t.Errorf("%+v, want %+v; right: %t", j.Stats, want, bytes.Equal(target, content))
	}
	if err := Verify(io.NewSectionReader(target, 0, int64(len(content))), j.Part); err != nil {
		t.Error(err)
	}
}
