package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/repository"
)

// packBuild makes the bundle of the build in dir, whose bytes must be what its manifest says, with its pack in a file.
func packBuild(dir string, epoch int, pack string) (repository.Bundle, error) {
	text, err := os.ReadFile(filepath.Join(dir, image.ManifestName))
	if err != nil {
		return repository.Bundle{}, fmt.Errorf("%w\nhint: BUILD_DIR is the directory of a build, such as build/amd64-cloud", err)
	}
	m, err := manifest.Decode(text)
	if err != nil {
		return repository.Bundle{}, err
	}
	var claims [3]manifest.File
	b := repository.Bundle{Pack: pack}
	for i, p := range []struct {
		suffix string
		path   *string
	}{{".root", &b.Root}, {".verity", &b.Verity}, {".efi", &b.UKI}} {
		f, ok := m.Output(p.suffix)
		if !ok || !filepath.IsLocal(f.Name) {
			return b, fmt.Errorf("%s: no file *%s", filepath.Join(dir, image.ManifestName), p.suffix)
		}
		claims[i], *p.path = f, filepath.Join(dir, f.Name)
	}
	about := bundle.Sources{ImageID: m.ImageID, Version: m.Version, Arch: m.Arch, Profile: m.Profile, Epoch: epoch, RootHash: m.RootHash}
	if about.Signature, err = image.ReadSignature(dir, m); err != nil {
		return b, err
	}
	if err := b.Write(about); err != nil {
		return b, err
	}
	for i, part := range []bundle.Part{b.Index.Root, b.Index.Verity, b.Index.UKI} {
		if part.SHA256 != claims[i].SHA256 {
			err = cmp.Or(err, fmt.Errorf("%s: SHA-256 %s, manifest: %s\nhint: loamctl verify %s checks the whole build", claims[i].Name, part.SHA256, claims[i].SHA256, dir))
		}
	}
	if err == nil {
		b.Index.Authenticode, err = authenticode.ReadFile(b.UKI)
	}
	return b, err
}
