// Package update makes the update bundle of a build, and reads it again: the
// pack and index of image/bundle, as files beside those that they are made of.
// The builder and image/sign use [Write], the publisher uses [Read].
package update

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/pcrsig"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/partitions/verity"
)

// Write makes the update bundle of the files in dir whose names begin
// with base.
func Write(dir, base string, about bundle.Sources) error {
	b := bundleIn(dir, base)
	if err := b.Write(about); err != nil {
		return err
	}

	var err error
	b.Index.Authenticode, err = authenticode.ReadFile(b.UKI)
	if err != nil {
		return err
	}

	b.Index.PCRKeys, err = pcrKeys(b.UKI)
	if err != nil {
		return err
	}

	text, err := b.Index.Encode()
	if err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(dir, base+image.IndexSuffix), text, 0o644)
}

// pcrKeys returns the keys that have signed a UKI for PCR 11.
func pcrKeys(file string) ([]string, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return pcrsig.ReadKeys(f)
}

func bundleIn(dir, base string) Bundle {
	path := filepath.Join(dir, base)
	return Bundle{
		Pack:   path + image.PackSuffix,
		Root:   path + ".root",
		Verity: path + ".verity",
		UKI:    path + ".efi",
	}
}

// Read returns the update bundle of the build in dir. It checks that the files
// are those of the manifest. report is told how far it is.
func Read(ctx context.Context, dir string, report meter.Report) (Bundle, error) {
	m, _, err := output.ReadManifest(dir)
	if err != nil {
		return Bundle{}, err
	}

	b, claims, err := read(dir, m)
	if err != nil {
		return b, output.Damaged(err)
	}

	all := int64(0)
	for _, f := range claims {
		all += f.Size
	}
	part := meter.Begin(ctx, "verify", all, report)
	if err := output.Check(dir, claims, part); err != nil {
		return b, hint.With(output.Damaged(err), "loamctl verify %s checks the whole build", dir)
	}

	return b, nil
}

// Check checks that the update bundle belongs to the build in dir, and that it
// has this signature of the root hash, which is nil for a build without one.
func Check(dir string, m manifest.Manifest, signature *verity.Signature) error {
	b, _, err := read(dir, m)
	if err == nil && !reflect.DeepEqual(b.Index.Signature, signature) {
		err = fmt.Errorf("%s: its signature of the root hash differs from the build",
			filepath.Base(b.Pack))
	}
	return err
}

// read reads the index, and compares it with the manifest. It returns what the
// manifest says about the files of the bundle.
func read(
	dir string, m manifest.Manifest,
) (b Bundle, claims []manifest.File, err error) {
	pack, ok := m.Output(image.PackSuffix)
	if !ok {
		return b, nil, hint.With(
			fault.With(fmt.Errorf("%s: no file *%s", image.ManifestName, image.PackSuffix),
				fault.NotABuild),
			"build it again: older builds have no update bundle")
	}

	base := strings.TrimSuffix(filepath.Base(pack.Name), image.PackSuffix)
	b = bundleIn(dir, base)
	text, err := os.ReadFile(filepath.Join(dir, base+image.IndexSuffix))
	if err != nil {
		return b, nil, err
	}

	b.Index, err = bundle.Parse(text)
	if err != nil {
		return b, nil, err
	}

	ix := b.Index
	have := []string{
		ix.ImageID, ix.Version, ix.Arch, ix.Profile, ix.RootHash,
	}

	want := []string{m.ImageID, m.Version, m.Arch, m.Profile, m.RootHash}
	if !slices.Equal(have, want) {
		return b, nil, fmt.Errorf("%s: about %q, manifest: %q", base+image.IndexSuffix, have, want)
	}

	for _, part := range []struct {
		suffix, sum string
		size        int64
	}{
		{image.PackSuffix, ix.Pack.SHA256, ix.Pack.Size},
		{".root", ix.Root.SHA256, ix.Root.Size},
		{".verity", ix.Verity.SHA256, ix.Verity.Size},
		{".efi", ix.UKI.SHA256, ix.UKI.Size},
	} {
		claim := manifest.File{Name: base + part.suffix, Size: part.size, SHA256: part.sum}
		if !slices.Contains(m.Files, claim) {
			return b, nil, fmt.Errorf("%s: %s of %d bytes, SHA-256 %s: the manifest says otherwise",
				base+image.IndexSuffix, claim.Name, claim.Size, claim.SHA256)
		}
		claims = append(claims, claim)
	}

	return b, claims, nil
}
