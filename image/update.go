package image

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/repository"
	"github.com/loam-os/loam/partitions/verity"
)

// Suffixes of the update bundle: the chunks of root, verity tree and UKI, and
// what names them. It is as the build is; a repository gives it its security
// epoch, and signs it.
const (
	packSuffix  = ".pack"
	indexSuffix = ".index.json"
)

// WriteUpdate makes the update bundle of the files in dir whose names begin
// with base.
func WriteUpdate(dir, base string, about bundle.Sources) error {
	b := updateIn(dir, base)
	if err := b.Write(about); err != nil {
		return err
	}

	var err error
	b.Index.Authenticode, err = authenticode.ReadFile(b.UKI)
	if err != nil {
		return err
	}

	text, err := b.Index.Encode()
	if err != nil {
		return err
	}

	return os.WriteFile(filepath.Join(dir, base+indexSuffix), text, 0o644)
}

func updateIn(dir, base string) repository.Bundle {
	path := filepath.Join(dir, base)
	return repository.Bundle{
		Pack:   path + packSuffix,
		Root:   path + ".root",
		Verity: path + ".verity",
		UKI:    path + ".efi",
	}
}

// ReadUpdate is the update bundle of the build in dir. Its files are what the
// manifest says.
func ReadUpdate(dir string) (repository.Bundle, error) {
	text, err := os.ReadFile(filepath.Join(dir, ManifestName))
	if err != nil {
		return repository.Bundle{}, err
	}

	m, err := manifest.Decode(text)
	if err != nil {
		return repository.Bundle{}, err
	}

	b, claims, err := readUpdate(dir, m)
	if err != nil {
		return b, err
	}
	if err := verifyFiles(dir, claims); err != nil {
		return b, fmt.Errorf("%w\nhint: loamctl verify %s checks the whole build", err, dir)
	}

	return b, nil
}

// verifyUpdate checks that the update bundle is of the build, and has the
// signature of the root hash if there is one.
func verifyUpdate(dir string, m manifest.Manifest, signature *verity.Signature) error {
	b, _, err := readUpdate(dir, m)
	if err == nil && !reflect.DeepEqual(b.Index.Signature, signature) {
		err = fmt.Errorf("%s: its signature of the root hash differs from the build",
			filepath.Base(b.Pack))
	}
	return err
}

// readUpdate reads the index, and compares it with the manifest. It returns the
// claims of that about what the bundle is of.
func readUpdate(
	dir string, m manifest.Manifest,
) (b repository.Bundle, claims []manifest.File, err error) {
	pack, ok := m.Output(packSuffix)
	if !ok {
		return b, nil, fmt.Errorf("%s: no file *%s\n"+
			"hint: build it again: builds of before have no update bundle",
			ManifestName, packSuffix)
	}

	base := strings.TrimSuffix(filepath.Base(pack.Name), packSuffix)
	b = updateIn(dir, base)
	text, err := os.ReadFile(filepath.Join(dir, base+indexSuffix))
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
		return b, nil, fmt.Errorf("%s: about %q, manifest: %q", base+indexSuffix, have, want)
	}

	for _, part := range []struct {
		suffix, sum string
		size        int64
	}{
		{packSuffix, ix.Pack.SHA256, ix.Pack.Size},
		{".root", ix.Root.SHA256, ix.Root.Size},
		{".verity", ix.Verity.SHA256, ix.Verity.Size},
		{".efi", ix.UKI.SHA256, ix.UKI.Size},
	} {
		claim := manifest.File{Name: base + part.suffix, Size: part.size, SHA256: part.sum}
		if !slices.Contains(m.Files, claim) {
			return b, nil, fmt.Errorf("%s: %s of %d bytes, SHA-256 %s: the manifest says otherwise",
				base+indexSuffix, claim.Name, claim.Size, claim.SHA256)
		}
		claims = append(claims, claim)
	}

	return b, claims, nil
}
