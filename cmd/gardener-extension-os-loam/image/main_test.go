package main

import (
	"archive/tar"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// programs writes a program for each architecture, whose content is its name.
func programs(t *testing.T, architectures ...string) []string {
	t.Helper()
	dir := t.TempDir()
	var args []string
	for _, arch := range architectures {
		file := filepath.Join(dir, arch)
		if err := os.WriteFile(file, []byte(arch), 0o755); err != nil {
			t.Fatal(err)
		}
		args = append(args, arch+"="+file)
	}
	return args
}

func TestWrite(t *testing.T) {
	args := programs(t, "amd64", "arm64")
	out := filepath.Join(t.TempDir(), "image")
	printed, err := write(out, args)
	if err != nil {
		t.Fatal(err)
	}
	index, err := layout.ImageIndexFromPath(out)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	if digest, err := index.Digest(); err != nil || digest != printed {
		t.Errorf("digest %s (%v), printed as %s", digest, err, printed)
	}

	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, m := range manifest.Manifests {
		image, err := index.Image(m.Digest)
		if err != nil {
			t.Fatal(err)
		}
		got[m.Platform.String()] = started(t, image)
	}

	diff := cmp.Diff(map[string]string{"linux/amd64": "amd64", "linux/arm64": "arm64"}, got)
	if diff != "" {
		t.Errorf("programs by platform (-want +got):\n%s", diff)
	}
}

// started returns the content of the program that a container of image runs.
func started(t *testing.T, image v1.Image) string {
	t.Helper()
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}

	content := mutate.Extract(image)
	defer content.Close()

	files := tar.NewReader(content)
	for {
		header, err := files.Next()
		if err != nil {
			t.Fatalf("%s: %v", config.Config.Entrypoint[0], err)
		}
		if "/"+header.Name != config.Config.Entrypoint[0] {
			continue
		}
		if header.Mode != 0o755 || config.Config.User != user {
			t.Errorf("mode 0%o, user %s", header.Mode, config.Config.User)
		}
		text, err := io.ReadAll(files)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
}

func TestSameProgramsMakeTheSameImage(t *testing.T) {
	args := programs(t, "amd64")
	var digests []v1.Hash
	for range 2 {
		out := filepath.Join(t.TempDir(), "image")
		digest, err := write(out, args)
		if err != nil {
			t.Fatal(err)
		}
		digests = append(digests, digest)
	}

	if digests[0] != digests[1] {
		t.Errorf("digests %v", digests)
	}
}

func TestWriteErrors(t *testing.T) {
	for _, test := range []struct {
		name, out string
		args      []string
	}{
		{name: "no directory", args: []string{"amd64=/bin/true"}},
		{name: "no program", out: filepath.Join(t.TempDir(), "image")},
		{
			name: "a program of no architecture",
			out:  filepath.Join(t.TempDir(), "image"),
			args: []string{"/bin/true"},
		},
		{
			name: "a program that is not there",
			out:  filepath.Join(t.TempDir(), "image"),
			args: []string{"amd64=/does/not/exist"},
		},
		{name: "a directory with files", out: "/proc/self", args: programs(t, "amd64")},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := write(test.out, test.args); err == nil {
				t.Error("write: no error")
			}
		})
	}
}
