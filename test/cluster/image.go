package cluster

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// File is a regular file of a layer, or a symbolic link if Link is set.
type File struct {
	Content []byte
	Mode    fs.FileMode // 0644 if zero; may have fs.ModeSetuid
	Link    string
}

// Layer is files by their paths, which are relative, as usr/bin/loam.
type Layer map[string]File

// Image is what Push makes an OCI image of. The same image has the same digest.
type Image struct {
	Arch   string // as GOARCH; the host's if empty
	Layers []Layer
	// Entrypoint is what a container runs by default; nil for nothing.
	Entrypoint []string
	// Command is what its arguments are by default.
	Command []string
	// Plain leaves the layers as they are, for what compresses all of the image.
	Plain bool
}

func (i Image) arch() string {
	if i.Arch == "" {
		return runtime.GOARCH
	}
	return i.Arch
}

// Media types of the OCI image specification.
const (
	IndexType    = "application/vnd.oci.image.index.v1+json"
	ManifestType = "application/vnd.oci.image.manifest.v1+json"
	configType   = "application/vnd.oci.image.config.v1+json"
	plainType    = "application/vnd.oci.image.layer.v1.tar"
	layerType    = plainType + "+gzip"
)

// Descriptor is a descriptor of the OCI image specification.
type Descriptor struct {
	MediaType string    `json:"mediaType"`
	Digest    string    `json:"digest"`
	Size      int       `json:"size"`
	Platform  *Platform `json:"platform,omitempty"`

	Annotations map[string]string `json:"annotations,omitempty"`
}

// Platform is what an image of an index is for.
type Platform struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
}

// Manifest is an image's.
type Manifest struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        Descriptor   `json:"config"`
	Layers        []Descriptor `json:"layers"`
}

// Index lists images for several platforms.
type Index struct {
	SchemaVersion int          `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Manifests     []Descriptor `json:"manifests"`
}

// archive packs a layer as tar, by name, at time zero.
func (l Layer) archive() ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, name := range slices.Sorted(maps.Keys(l)) {
		f := l[name]
		if err := w.WriteHeader(f.header(name)); err != nil {
			return nil, fmt.Errorf("layer: %s: %w", name, err)
		}
		if _, err := w.Write(f.Content); err != nil {
			return nil, fmt.Errorf("layer: %s: %w", name, err)
		}
	}

	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("layer: %w", err)
	}

	return out.Bytes(), nil
}

func (f File) header(name string) *tar.Header {
	if f.Link != "" {
		return &tar.Header{
			Typeflag: tar.TypeSymlink,
			Name:     name,
			Linkname: f.Link,
			Mode:     0o777,
		}
	}

	mode := f.Mode.Perm()
	if mode == 0 {
		mode = 0o644
	}

	bits := int64(mode)
	if f.Mode&fs.ModeSetuid != 0 {
		bits |= unix.S_ISUID
	}

	return &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     name,
		Mode:     bits,
		Size:     int64(len(f.Content)),
	}
}

func compress(data []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	if err == nil {
		_, err = w.Write(data)
	}

	if err == nil {
		err = w.Close()
	}

	if err != nil {
		return nil, fmt.Errorf("compress a layer: %w", err)
	}

	return out.Bytes(), nil
}

// config is the part of an image that names its platform and the digests of
// its layers before compression.
func (i Image) config(diffIDs []string) ([]byte, error) {
	start := map[string]any{"Entrypoint": i.Entrypoint}
	if i.Command != nil {
		start["Cmd"] = i.Command
	}

	return json.Marshal(map[string]any{
		"architecture": i.arch(),
		"os":           "linux",
		"config":       start,
		"rootfs":       map[string]any{"type": "layers", "diff_ids": diffIDs},
	})
}

// push puts what the image consists of where put says, but for the manifest
// itself.
func (i Image) push(
	put func(mediaType string, blob []byte) (Descriptor, error),
) (Manifest, error) {
	m := Manifest{SchemaVersion: 2, MediaType: ManifestType, Layers: []Descriptor{}}
	diffIDs := []string{}
	for _, l := range i.Layers {
		archive, err := l.archive()
		if err != nil {
			return m, err
		}

		blob, mediaType := archive, plainType
		if !i.Plain {
			mediaType = layerType
			blob, err = compress(archive)
		}
		if err != nil {
			return m, err
		}

		d, err := put(mediaType, blob)
		if err != nil {
			return m, err
		}

		diffIDs = append(diffIDs, digest(archive))
		m.Layers = append(m.Layers, d)
	}

	config, err := i.config(diffIDs)
	if err != nil {
		return m, err
	}

	m.Config, err = put(configType, config)
	return m, err
}
