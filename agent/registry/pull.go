package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	contents "github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/containerd/v2/core/remotes"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sync/errgroup"
)

// pull is one image on its way into containerd. Existing content is not
// requested, so an interrupted pull resumes.
type pull struct {
	*session
	fetcher remotes.Fetcher
}

// Limits on what a registry may send to be read into memory, and on indexes of
// indexes.
const (
	maxDocument = 8 << 20
	maxDepth    = 4
	atOnce      = 3 // layers, as containerd's CRI plugin does by default
)

// pull makes containerd have the image target under the name of remote, and
// lists its files. If signature is not nil, it is kept with the image.
func (s *session) pull(
	ctx context.Context, m *remote, target ocispec.Descriptor, signature *ocispec.Descriptor,
) (image, error) {
	fetcher, err := m.resolver.Fetcher(ctx, m.name())
	if err != nil {
		return image{}, m.explain(ctx, err)
	}

	held, err := s.hold(ctx, m.name())
	if err != nil {
		return image{}, err
	}

	p := pull{s, fetcher}
	layers, err := p.layers(held, target)
	if err != nil {
		return image{}, m.explain(ctx, err)
	}

	if signature != nil {
		labels := map[string]string{signatureLabel: signature.Digest.String()}
		if err := p.label(held, target, labels); err != nil {
			return image{}, err
		}
	}

	files, err := p.read(held, m.name(), layers)
	if err != nil {
		return image{}, err
	}

	if err := s.save(held, m.name(), target); err != nil {
		return image{}, err
	}

	return image{layers, files}, s.release(ctx, m.name())
}

// layers pulls an image and returns its layers, the lowest first.
func (p pull) layers(ctx context.Context, target ocispec.Descriptor) ([]ocispec.Descriptor, error) {
	for range maxDepth {
		if images.IsManifestType(target.MediaType) {
			return p.manifest(ctx, target)
		}

		if !images.IsIndexType(target.MediaType) {
			return nil, fmt.Errorf("%s is of type %q, which is not an image",
				target.Digest, target.MediaType)
		}

		var index ocispec.Index
		if err := p.document(ctx, target, &index); err != nil {
			return nil, err
		}

		manifest, err := chooseManifest(index.Manifests)
		if err != nil {
			return nil, err
		}
		if err := p.refer(ctx, target, manifest); err != nil {
			return nil, err
		}

		target = manifest
	}

	return nil, errors.New("the image is an index of indexes of indexes")
}

func (p pull) manifest(
	ctx context.Context, target ocispec.Descriptor,
) ([]ocispec.Descriptor, error) {
	var manifest ocispec.Manifest
	if err := p.document(ctx, target, &manifest); err != nil {
		return nil, err
	}

	err := p.refer(ctx, target,
		append([]ocispec.Descriptor{manifest.Config}, manifest.Layers...)...)
	if err != nil {
		return nil, err
	}

	var of ocispec.Image
	if err := p.document(ctx, manifest.Config, &of); err != nil {
		return nil, err
	}
	if err := isOurs(of.Platform); err != nil {
		return nil, err
	}

	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)

	for _, layer := range manifest.Layers {
		group.Go(func() error { return p.fetch(ctx, layer) })
	}

	return manifest.Layers, group.Wait()
}

// document pulls and decodes a JSON part of the image.
func (p pull) document(ctx context.Context, d ocispec.Descriptor, into any) error {
	text, err := p.small(ctx, d)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("read %s %s: %w", d.MediaType, d.Digest, err)
	}

	return nil
}

// small pulls and returns a part of an image that fits into memory.
func (p pull) small(ctx context.Context, d ocispec.Descriptor) ([]byte, error) {
	if d.Size > maxDocument {
		return nil, fmt.Errorf("%s %s has %d bytes, more than %d",
			d.MediaType, d.Digest, d.Size, maxDocument)
	}

	if err := p.fetch(ctx, d); err != nil {
		return nil, err
	}

	d.Data = nil // Only verified content counts.
	text, err := contents.ReadBlob(ctx, p.content, d)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", d.Digest, err)
	}
	return text, nil
}

// refer makes containerd keep parts as long as whole (containerd
// docs/garbage-collection.md).
func (p pull) refer(
	ctx context.Context, whole ocispec.Descriptor, parts ...ocispec.Descriptor,
) error {
	labels := map[string]string{}
	for i, part := range parts {
		labels[fmt.Sprintf("containerd.io/gc.ref.content.%d", i)] = part.Digest.String()
	}
	return p.label(ctx, whole, labels)
}

// label sets labels of content that containerd has. Other labels stay.
func (p pull) label(ctx context.Context, d ocispec.Descriptor, labels map[string]string) error {
	var fields []string
	for label := range labels {
		fields = append(fields, "labels."+label)
	}
	info := contents.Info{Digest: d.Digest, Labels: labels}
	if _, err := p.content.Update(ctx, info, fields...); err != nil {
		return fmt.Errorf("refer from %s to its parts: %w", d.Digest, err)
	}

	return nil
}

// read lists the files of the layers. It removes a layer that is damaged on the
// disk, so that the next pull fetches it again.
func (p pull) read(ctx context.Context, name string, layers []ocispec.Descriptor) (*tree, error) {
	files := newTree()
	for i, layer := range layers {
		blob, err := p.blob(ctx, layer)
		if err != nil {
			return nil, err
		}

		err = errors.Join(files.add(i, blob, layer.Digest), blob.Close())
		if errors.Is(err, errDamaged) {
			err = errors.Join(err, p.content.Delete(ctx, layer.Digest),
				p.leases.Delete(ctx, leases.Lease{ID: name}, leases.SynchronousDelete))
		}

		if err != nil {
			return nil, fmt.Errorf("read layer %s: %w", layer.Digest, err)
		}
	}

	return files, nil
}
