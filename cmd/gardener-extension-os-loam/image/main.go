// Command image writes the container image of gardener-extension-os-loam, for
// one or several architectures, as a directory in the layout of OCI
// (image-spec, image-layout.md), and prints its digest:
//
//	image -out DIRECTORY amd64=PROGRAM arm64=PROGRAM
package main

import (
	"archive/tar"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

const program = "gardener-extension-os-loam"

// user is an arbitrary ID without rights: the program needs none.
const user = "65532:65532"

func main() {
	out := flag.String("out", "", "directory to write, which is there only if it is empty")
	flag.Parse()
	digest, err := write(*out, flag.Args())
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
	fmt.Println(*out + "@" + digest.String())
}

// write writes an index with one image for each of programs, which say
// ARCHITECTURE=FILE. It returns the digest of the index.
func write(out string, programs []string) (digest v1.Hash, err error) {
	if out == "" || len(programs) == 0 {
		return digest, fmt.Errorf("want -out DIRECTORY ARCHITECTURE=PROGRAM...")
	}
	if entries, err := os.ReadDir(out); err == nil && len(entries) > 0 {
		return digest, fmt.Errorf("%s is not empty", out)
	}

	index := v1.ImageIndex(empty.Index)
	for _, arg := range programs {
		arch, file, ok := strings.Cut(arg, "=")
		if !ok {
			return digest, fmt.Errorf("%q: want ARCHITECTURE=PROGRAM", arg)
		}
		image, err := imageOf(arch, file)
		if err != nil {
			return digest, fmt.Errorf("make the image for %s: %w", arch, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: arch}},
		})
	}

	if _, err := layout.Write(out, index); err != nil {
		return digest, fmt.Errorf("write %s: %w", out, err)
	}
	return index.Digest()
}

// imageOf returns an image that has nothing but the program in file. The same
// program makes the same image.
func imageOf(arch, file string) (v1.Image, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	archive, err := archiveOf(text)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(archive)), nil },
		tarball.WithMediaType(types.OCILayer),
	)
	if err != nil {
		return nil, err
	}

	base := mutate.ConfigMediaType(
		mutate.MediaType(empty.Image, types.OCIManifestSchema1),
		types.OCIConfigJSON,
	)
	image, err := mutate.ConfigFile(base, &v1.ConfigFile{
		OS:           "linux",
		Architecture: arch,
		RootFS:       v1.RootFS{Type: "layers"},
		Config: v1.Config{
			Entrypoint: []string{"/" + program},
			User:       user,
		},
	})
	if err != nil {
		return nil, err
	}
	return mutate.AppendLayers(image, layer)
}

// archiveOf returns a tar archive with the program.
func archiveOf(text []byte) ([]byte, error) {
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	err := archive.WriteHeader(&tar.Header{
		Name: program,
		Mode: 0o755,
		Size: int64(len(text)),
	})
	if err != nil {
		return nil, err
	}

	if _, err := archive.Write(text); err != nil {
		return nil, err
	}

	if err := archive.Close(); err != nil {
		return nil, err
	}

	return out.Bytes(), nil
}
