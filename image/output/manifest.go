package output

import (
	"os"
	"path/filepath"

	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/partitions/gpt"
)

// ReadManifest reads the manifest of the build in dir, and returns its text
// too.
func ReadManifest(dir string) (m manifest.Manifest, text []byte, err error) {
	text, err = os.ReadFile(filepath.Join(dir, image.ManifestName))
	switch fault.Of(err) {
	case fault.FileMissing, fault.WrongFileType:
		return manifest.Manifest{}, nil, fault.With(err, fault.NotABuild)
	}
	if err != nil {
		return manifest.Manifest{}, nil, err
	}

	m, err = manifest.Decode(text)
	return m, text, err
}

// Damaged adds a code to an error about a file of a build, unless it has one that
// says more.
func Damaged(err error) error {
	switch fault.Of(err) {
	case fault.Failed, fault.FileMissing:
		return fault.With(err, fault.BuildDamaged)
	}
	return err
}

// WriteManifest writes the manifest of a build into dir, and SHA256SUMS.
func WriteManifest(dir string, m manifest.Manifest) error {
	text, err := m.Encode()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, image.ManifestName), text, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, image.SumsName), []byte(Sums(m, text)), 0o644)
}

// Partitions returns what a manifest says about a partition table.
func Partitions(t gpt.Table) []manifest.Partition {
	var out []manifest.Partition
	for _, p := range t.Partitions {
		out = append(out, manifest.Partition{
			Index: p.Index,
			Label: p.Label,
			Type:  p.Type,
			UUID:  p.UUID,
			Start: p.Start,
			Size:  p.Size,
		})
	}
	return out
}
