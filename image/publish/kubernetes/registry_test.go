package kubernetes

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/file"
	"oras.land/oras-go/v2/registry/remote"

	"github.com/loam-os/loam/test/cluster"
)

// TestAnArtifactOfARegistryIsADirectory pushes files as `oras push` does, with a
// directory among them, and makes the bundle that the directory makes.
func TestAnArtifactOfARegistryIsADirectory(t *testing.T) {
	registry := cluster.StartRegistry(t, cluster.RegistryOptions{})
	host := strings.TrimPrefix(registry.URL(), "http://")
	dir := upstream(t)
	want, _ := mustMake(t, dir)

	files, err := file.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var layers []ocispec.Descriptor
	for _, entry := range entries {
		layer, err := files.Add(t.Context(), entry.Name(), "", filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		layers = append(layers, layer)
	}
	manifest, err := oras.PackManifest(t.Context(), files, oras.PackManifestVersion1_1,
		"application/vnd.example.kubernetes", oras.PackManifestOptions{Layers: layers})
	if err == nil {
		err = files.Tag(t.Context(), manifest, "1.37.2-amd64")
	}
	if err != nil {
		t.Fatal(err)
	}
	repo, err := remote.NewRepository(host + "/plant/kubernetes")
	if err != nil {
		t.Fatal(err)
	}
	repo.PlainHTTP = true
	_, err = oras.Copy(t.Context(), files, "1.37.2-amd64", repo, "1.37.2-amd64",
		oras.DefaultCopyOptions)
	if err != nil {
		t.Fatal(err)
	}

	var fetched, all int64
	have, err := Make(t.Context(), Params{
		Version: "1.37.2",
		Arch:    "amd64",
		From:    "oci+http://" + host + "/plant/kubernetes:1.37.2-amd64",
		Work:    t.TempDir(),
		Report: func(part string, done, total int64) {
			if part == "fetch" {
				fetched, all = done, total
			}
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Index, have.Index); diff != "" {
		t.Error(diff)
	}
	if fetched != all || all == 0 {
		t.Errorf("the last report is of %d bytes of %d", fetched, all)
	}
}
