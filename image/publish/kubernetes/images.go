package kubernetes

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/oci"

	"github.com/loam-os/loam/image/bundle"
)

// nameAnnotation is where containerd has the full name of an image.
const nameAnnotation = "io.containerd.image.name"

// isLayout reports whether a directory is an OCI layout.
func isLayout(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, ocispec.ImageLayoutFile))
	return err == nil
}

// archive adds an archive to the layouts, if it has one.
func (f *found) archive(file string) error {
	text, err := fromArchive(file, ocispec.ImageLayoutFile)
	if err != nil || text == nil {
		f.others = append(f.others, file)
		return nil // It may have anything in it.
	}
	f.layouts = append(f.layouts, file)
	return nil
}

// fromArchive returns the content of a file in an archive, nil if it has no such
// file.
func fromArchive(file, name string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	r := tar.NewReader(f)
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		if path.Clean(header.Name) == name {
			return io.ReadAll(io.LimitReader(r, bundle.MaxIndex))
		}
	}
}

// layout is an OCI layout that is read.
type layout struct {
	path  string
	store *oci.ReadOnlyStore
	index ocispec.Index
}

// openLayout opens a directory or an archive.
func openLayout(ctx context.Context, file string) (layout, error) {
	l := layout{path: file}
	info, err := os.Stat(file)
	if err != nil {
		return l, err
	}

	var text []byte
	if info.IsDir() {
		text, err = os.ReadFile(filepath.Join(file, ocispec.ImageIndexFile))
	} else {
		text, err = fromArchive(file, ocispec.ImageIndexFile)
	}
	if err == nil {
		err = json.Unmarshal(text, &l.index)
	}
	if err != nil {
		return l, fmt.Errorf("%s: %w", file, err)
	}

	if info.IsDir() {
		l.store, err = oci.NewFromFS(ctx, os.DirFS(file))
	} else {
		l.store, err = oci.NewFromTar(ctx, file)
	}
	if err != nil {
		return l, fmt.Errorf("%s: %w", file, err)
	}
	return l, nil
}

// nameOf returns the full name of an image, and the last element of the name of
// its repository.
func nameOf(d ocispec.Descriptor) (full, short string) {
	full = d.Annotations[nameAnnotation]
	if full == "" {
		full = d.Annotations[ocispec.AnnotationRefName]
	}
	short, _, _ = strings.Cut(path.Base(full), ":")
	return full, short
}

// images copies the images of a bundle into a new OCI layout, and returns its
// files by their names in a bundle.
func (f found) images(ctx context.Context, arch, to string) (map[string]string, error) {
	store, err := oci.NewWithContext(ctx, to)
	if err != nil {
		return nil, err
	}

	byName := map[string][]ocispec.Descriptor{}
	var seen []string
	for _, file := range f.layouts {
		l, err := openLayout(ctx, file)
		if err != nil {
			return nil, err
		}
		for _, d := range l.index.Manifests {
			full, short := nameOf(d)
			seen = append(seen, full)
			if !slices.Contains(bundle.KubernetesImages(), short) {
				continue
			}
			d, err := l.copy(ctx, d, arch, store)
			if err != nil {
				return nil, fmt.Errorf("%s: image %s: %w", file, full, err)
			}
			byName[short] = append(byName[short], d)
		}
	}

	index, err := f.index(byName, seen)
	if err != nil {
		return nil, err
	}
	return layoutFiles(to, index)
}

// index makes the index of the layout of a bundle, with one image of each name.
func (f found) index(byName map[string][]ocispec.Descriptor, seen []string) ([]byte, error) {
	index := ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageIndex,
	}

	var faults []error
	for _, name := range bundle.KubernetesImages() {
		switch images := byName[name]; {
		case len(images) == 1:
			index.Manifests = append(index.Manifests, images[0])
		case len(images) > 1:
			faults = append(faults, fmt.Errorf("image %s: there are %d", name, len(images)))
		case len(seen) > 0:
			faults = append(faults, fmt.Errorf("image %s: the layouts have only %s", name,
				strings.Join(seen, ", ")))
		case len(f.others) > 0:
			faults = append(faults, fmt.Errorf("image %s: no OCI layout, and none in %s", name,
				strings.Join(f.others, ", ")))
		default:
			faults = append(faults, fmt.Errorf("image %s: no OCI layout", name))
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return json.Marshal(index)
}

// copy copies the image for one architecture, and describes it with its name.
func (l layout) copy(
	ctx context.Context, d ocispec.Descriptor, arch string, to *oci.Store,
) (ocispec.Descriptor, error) {
	full, _ := nameOf(d)
	manifest, err := l.platform(ctx, d, arch)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	if err := oras.CopyGraph(ctx, l.store, to, manifest, oras.DefaultCopyGraphOptions); err != nil {
		return ocispec.Descriptor{}, err
	}

	return ocispec.Descriptor{
		MediaType:   manifest.MediaType,
		Digest:      manifest.Digest,
		Size:        manifest.Size,
		Annotations: map[string]string{ocispec.AnnotationRefName: full},
	}, nil
}

// platform returns the manifest of an image for an architecture.
func (l layout) platform(
	ctx context.Context, d ocispec.Descriptor, arch string,
) (ocispec.Descriptor, error) {
	text, err := content.FetchAll(ctx, l.store, d)
	if err != nil {
		return d, err
	}

	var both struct {
		Manifests []ocispec.Descriptor `json:"manifests"`
		Config    ocispec.Descriptor   `json:"config"`
	}
	if err := json.Unmarshal(text, &both); err != nil {
		return d, err
	}
	var archs []string
	for _, m := range both.Manifests {
		if m.Platform == nil || m.Platform.OS != "linux" {
			continue
		}
		if m.Platform.Architecture == arch {
			return m, nil
		}
		archs = append(archs, m.Platform.Architecture)
	}
	if len(both.Manifests) > 0 {
		return d, fmt.Errorf("it is for %s, not for %s", strings.Join(archs, ", "), arch)
	}

	text, err = content.FetchAll(ctx, l.store, both.Config)
	if err != nil {
		return d, err
	}
	var platform ocispec.Platform
	if err := json.Unmarshal(text, &platform); err != nil {
		return d, err
	}
	if platform.Architecture != arch {
		return d, fmt.Errorf("it is for %s, not for %s", platform.Architecture, arch)
	}
	return d, nil
}

// layoutFiles writes the index of a layout, and returns the files of the layout by
// their names in a bundle.
func layoutFiles(dir string, index []byte) (map[string]string, error) {
	if err := os.WriteFile(filepath.Join(dir, ocispec.ImageIndexFile), index, 0o644); err != nil {
		return nil, err
	}

	files := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		files[path.Join(bundle.ImagesDir, filepath.ToSlash(rel))] = file
		return err
	})
	return files, err
}
