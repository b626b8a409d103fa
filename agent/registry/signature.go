package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/loam-os/loam/agent/cosign"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// signatureLabel is the label of an image in containerd's content store with the
// digest of the manifest of its signature. containerd keeps both together, so a
// node verifies an image again without its registry.
const signatureLabel = "containerd.io/gc.ref.content.loam-signature"

// Limits on the work that a registry can make with signatures: referrers of an
// image that are fetched, and signatures in one manifest.
const (
	maxReferrers  = 32
	maxSignatures = 64
)

// Require makes the provider refuse each image that none of the keys has
// signed; without keys, signatures are not looked at. It must be called before
// the first Image.
func (r *Registry) Require(keys cosign.Keys) { r.verifier.keys = keys }

// verifier looks for a signature by one of its keys; without keys, for none.
type verifier struct{ keys cosign.Keys }

// verify refuses an image that no trusted key has signed. It asks containerd
// for a signature that was verified before, and then the registry; it returns
// the manifest of one from there, and nil for one that containerd has.
func (v verifier) verify(
	ctx context.Context, s *session, m *remote, target ocispec.Descriptor,
) (*ocispec.Descriptor, error) {
	if len(v.keys) == 0 {
		return nil, nil
	}

	fetcher, err := m.resolver.Fetcher(ctx, m.name())
	if err != nil {
		return nil, m.explain(ctx, err)
	}

	p := pull{s, fetcher}
	kept, ok, err := s.keptSignature(ctx, target)
	if err != nil {
		return nil, err
	}
	if ok && v.verifies(ctx, p, m, target, kept) == nil {
		return nil, nil
	}

	// The lease ends when the image is pulled.
	held, err := s.hold(ctx, m.name())
	if err != nil {
		return nil, err
	}

	found, err := v.fetchSignature(held, p, m, target)
	if fault.Of(err) == fault.ImageNotSigned {
		return nil, errors.Join(err, s.release(ctx, m.name()))
	}
	return found, err
}

// keptSignature returns the manifest of a signature that containerd has.
func (s *session) keptSignature(
	ctx context.Context, target ocispec.Descriptor,
) (ocispec.Descriptor, bool, error) {
	image, err := s.content.Info(ctx, target.Digest)
	if errdefs.IsNotFound(err) {
		return ocispec.Descriptor{}, false, nil
	}
	if err != nil {
		return ocispec.Descriptor{}, false, fmt.Errorf("look up %s in containerd: %w",
			target.Digest, err)
	}

	manifest, err := s.content.Info(ctx, digest.Digest(image.Labels[signatureLabel]))
	if err != nil { // There is no signature, or it is damaged: it is fetched again.
		return ocispec.Descriptor{}, false, nil
	}
	return ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageManifest,
		Digest:    manifest.Digest,
		Size:      manifest.Size,
	}, true, nil
}

// fetchSignature looks for a signature of the image in the registry, or in its
// mirrors, and returns its manifest.
func (v verifier) fetchSignature(
	ctx context.Context, p pull, m *remote, target ocispec.Descriptor,
) (*ocispec.Descriptor, error) {
	candidates, err := m.signatures(ctx, p.fetcher, target)
	if err != nil {
		return nil, m.explain(ctx, err)
	}

	reason := errors.New("the registry has no signature of it")
	for i, candidate := range candidates {
		err := v.verifies(ctx, p, m, target, candidate)
		switch {
		case err == nil:
			return &candidate, nil
		case isUnreachable(ctx, err), ctx.Err() != nil:
			return nil, m.explain(ctx, err)
		case i == 0:
			reason = err
		}
	}

	err = fault.With(fmt.Errorf("the image %s is not signed by a key of machine.yaml: %w",
		target.Digest, reason), fault.ImageNotSigned)
	return nil, hint.With(err, "cosign sign --key KEY %s@%s, and copy the signature to mirrors",
		m.Locator, target.Digest)
}

// signatures returns the manifests that may have a signature of the image.
func (m *remote) signatures(
	ctx context.Context, fetcher remotes.Fetcher, target ocispec.Descriptor,
) ([]ocispec.Descriptor, error) {
	var all []ocispec.Descriptor
	_, tagged, err := m.resolver.Resolve(ctx, m.Locator+":"+cosign.Tag(target.Digest.String()))
	switch {
	case err == nil:
		all = append(all, tagged)
	case !errdefs.IsNotFound(err):
		return nil, err
	}

	referrers, ok := fetcher.(remotes.ReferrersFetcher)
	if !ok {
		return all, nil
	}
	found, err := referrers.FetchReferrers(ctx, target.Digest)
	if err != nil {
		if len(all) > 0 { // A registry may not know referrers.
			return all, nil
		}
		return nil, err
	}

	return append(all, bundles(found)...), nil
}

// bundles returns the first few of the referrers of an image that may have a
// signature. Others do not count: an image may have many, such as SBOMs.
func bundles(referrers []ocispec.Descriptor) []ocispec.Descriptor {
	found := slices.DeleteFunc(slices.Clone(referrers), func(d ocispec.Descriptor) bool {
		return !cosign.IsBundle(d.ArtifactType)
	})
	return found[:min(len(found), maxReferrers)]
}

// verifies pulls the manifest of a signature with its layers, and returns an
// error unless one of them is a signature of the image.
func (v verifier) verifies(
	ctx context.Context, p pull, m *remote, target, signature ocispec.Descriptor,
) error {
	var manifest ocispec.Manifest
	if err := p.document(ctx, signature, &manifest); err != nil {
		return err
	}

	if n := len(manifest.Layers); n > maxSignatures {
		return fmt.Errorf("%d signatures: want at most %d", n, maxSignatures)
	}

	err := cosign.ErrNotSigned
	for _, layer := range manifest.Layers {
		content, readErr := p.small(ctx, layer)
		if readErr != nil {
			return readErr
		}

		claim, notSigned := v.keys.Verify(cosign.Layer{
			MediaType:   layer.MediaType,
			Annotations: layer.Annotations,
			Content:     content,
		})
		switch {
		case notSigned != nil:
			err = notSigned
		case claim.Digest != target.Digest.String():
			err = fmt.Errorf("the signature is for %.80q", claim.Digest)
		case m.Digest() == "" && claim.Repository != m.Locator:
			err = hint.With(fmt.Errorf("the signature is for %.200q", claim.Repository),
				"name the image by its digest")
		default:
			return p.refer(ctx, signature, manifest.Layers...)
		}
	}
	return err
}
