package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/repository"
)

// packBuild makes the bundle of the build in dir, whose bytes must be what its manifest says. The pack goes to pack.
func packBuild(dir string, epoch int, pack io.Writer) (repository.Bundle, error) {
	text, err := os.ReadFile(filepath.Join(dir, image.ManifestName))
	if err != nil {
		return repository.Bundle{}, fmt.Errorf("%w\nhint: BUILD_DIR is the directory of a build, such as build/amd64-cloud", err)
	}
	m, err := manifest.Decode(text)
	if err != nil {
		return repository.Bundle{}, err
	}
	in := bundle.Sources{ImageID: m.ImageID, Version: m.Version, Arch: m.Arch, Profile: m.Profile, Epoch: epoch, RootHash: m.RootHash}
	var b repository.Bundle
	var claims [3]manifest.File
	for i, p := range []struct {
		suffix string
		from   *bundle.Source
		path   *string
	}{{".root", &in.Root, &b.Root}, {".verity", &in.Verity, &b.Verity}, {".efi", &in.UKI, &b.UKI}} {
		f, claim, err := openPart(dir, m, p.suffix)
		if err != nil {
			return b, err
		}
		defer f.Close()
		*p.from, *p.path, claims[i] = bundle.Source{ReaderAt: f, Size: claim.Size}, f.Name(), claim
	}
	if b.Index, err = bundle.Write(pack, in); err != nil {
		return b, err
	}
	for i, part := range []bundle.Part{b.Index.Root, b.Index.Verity, b.Index.UKI} {
		if part.SHA256 != claims[i].SHA256 {
			err = cmp.Or(err, fmt.Errorf("%s: SHA-256 %s, manifest: %s\nhint: loamctl verify %s checks the whole build", claims[i].Name, part.SHA256, claims[i].SHA256, dir))
		}
	}
	return b, err
}

// openPart opens the file of the build that has the suffix.
func openPart(dir string, m manifest.Manifest, suffix string) (*os.File, manifest.File, error) {
	i := slices.IndexFunc(m.Files, func(f manifest.File) bool { return strings.HasSuffix(f.Name, suffix) && filepath.IsLocal(f.Name) })
	if i < 0 {
		return nil, manifest.File{}, fmt.Errorf("%s: no file *%s", filepath.Join(dir, image.ManifestName), suffix)
	}
	f, err := os.Open(filepath.Join(dir, m.Files[i].Name))
	return f, m.Files[i], err
}
