package cluster

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/loam-os/loam/agent/plane/bundle"
)

// WriteBundle makes a bundle of Kubernetes, for a node to run, in the directory
// dir, which must not exist. programs are files by their names; images are by
// full references.
func WriteBundle(dir, version string, programs map[string]string, images map[string]Image) error {
	d := bundle.Description{Format: bundle.Format, Version: version, Arch: runtime.GOARCH}
	add := func(name string, content []byte, mode os.FileMode) error {
		sum := sha256.Sum256(content)
		d.Files = append(d.Files, bundle.File{
			Name:   name,
			Size:   int64(len(content)),
			SHA256: hex.EncodeToString(sum[:]),
		})
		place := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			return err
		}
		return os.WriteFile(place, content, mode)
	}

	for _, name := range slices.Sorted(maps.Keys(programs)) {
		content, err := os.ReadFile(programs[name])
		if err != nil {
			return err
		}
		if err := add("bin/"+name, content, 0o755); err != nil {
			return err
		}
	}

	layout, err := layoutOf(images)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(layout)) {
		if err := add("images/"+name, layout[name], 0o644); err != nil {
			return err
		}
	}

	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "bundle.json"), text, 0o644)
}

// layoutOf returns the files of an OCI layout with images (OCI image
// specification, image-layout.md).
func layoutOf(images map[string]Image) (map[string][]byte, error) {
	files := map[string][]byte{
		ocispec.ImageLayoutFile: []byte(`{"imageLayoutVersion": "1.0.0"}`),
	}
	put := func(mediaType string, content []byte) Descriptor {
		d := describe(mediaType, content)
		files["blobs/sha256/"+d.Digest[len("sha256:"):]] = content
		return d
	}

	type named struct {
		Descriptor
		Annotations map[string]string `json:"annotations"`
	}
	var manifests []named
	for _, name := range slices.Sorted(maps.Keys(images)) {
		m, err := images[name].manifest(put)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(m)
		if err != nil {
			return nil, err
		}
		manifests = append(manifests, named{
			Descriptor:  put(ManifestType, text),
			Annotations: map[string]string{ocispec.AnnotationRefName: name},
		})
	}

	index, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": IndexType, "manifests": manifests,
	})
	files[ocispec.ImageIndexFile] = index
	return files, err
}

// manifest returns the manifest of an image whose blobs it has put.
func (i Image) manifest(put func(mediaType string, blob []byte) Descriptor) (Manifest, error) {
	m := Manifest{SchemaVersion: 2, MediaType: ManifestType, Layers: []Descriptor{}}
	diffIDs := []string{}
	for _, l := range i.Layers {
		archive, err := l.archive()
		if err != nil {
			return m, err
		}
		compressed, err := compress(archive)
		if err != nil {
			return m, err
		}

		diffIDs = append(diffIDs, digest(archive))
		m.Layers = append(m.Layers, put(layerType, compressed))
	}

	config, err := i.config(diffIDs)
	if err != nil {
		return m, err
	}
	m.Config = put(configType, config)
	return m, nil
}
