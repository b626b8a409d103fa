package cluster

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// WriteLayout writes images by their full names, such as
// registry.k8s.io/pause:3.10.2, into an OCI layout in a new directory.
func WriteLayout(dir string, images map[string]Image) error {
	blobs := filepath.Join(dir, "blobs/sha256")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return err
	}
	put := func(mediaType string, blob []byte) (Descriptor, error) {
		d := describe(mediaType, blob)
		name := strings.TrimPrefix(d.Digest, "sha256:")
		return d, os.WriteFile(filepath.Join(blobs, name), blob, 0o644)
	}

	index := Index{SchemaVersion: 2, MediaType: IndexType}
	for _, name := range slices.Sorted(maps.Keys(images)) {
		m, err := images[name].push(put)
		if err != nil {
			return fmt.Errorf("image %s: %w", name, err)
		}
		text, err := json.Marshal(m)
		if err != nil {
			return err
		}
		d, err := put(ManifestType, text)
		if err != nil {
			return err
		}
		d.Annotations = map[string]string{"org.opencontainers.image.ref.name": name}
		index.Manifests = append(index.Manifests, d)
	}

	for name, value := range map[string]any{
		"oci-layout": map[string]string{"imageLayoutVersion": "1.0.0"},
		"index.json": index,
	} {
		text, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// WriteArchive writes images by their full names as an archive of an OCI layout,
// which `ctr images import` reads.
func WriteArchive(w io.Writer, images map[string]Image) error {
	dir, err := os.MkdirTemp("", "loam")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)

	err = WriteLayout(dir, images)
	if err != nil {
		return err
	}
	archive := tar.NewWriter(w)
	return errors.Join(archive.AddFS(os.DirFS(dir)), archive.Close())
}
