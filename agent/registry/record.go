package registry

import (
	"context"
	"fmt"

	images "github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// record returns the image that name had when its last pull was complete.
func (s *session) record(ctx context.Context, name string) (ocispec.Descriptor, bool, error) {
	answer, err := s.images.Get(ctx, &images.GetImageRequest{Name: name})
	err = errgrpc.ToNative(err)
	if errdefs.IsNotFound(err) {
		return ocispec.Descriptor{}, false, nil
	}

	if err != nil {
		return ocispec.Descriptor{}, false, fmt.Errorf("look up the image %s in containerd: %w",
			name, err)
	}

	return descriptor(answer.Image), true, nil
}

// withDigest returns an image with that digest, under any name.
func (s *session) withDigest(
	ctx context.Context, want digest.Digest,
) (ocispec.Descriptor, bool, error) {
	all, err := s.list(ctx, "target.digest=="+want.String())
	if err != nil || len(all) == 0 {
		return ocispec.Descriptor{}, false, err
	}
	return descriptor(all[0]), true, nil
}

func (s *session) list(ctx context.Context, filters ...string) ([]*images.Image, error) {
	answer, err := s.images.List(ctx, &images.ListImagesRequest{Filters: filters})
	if err != nil {
		return nil, fmt.Errorf("list containerd's images: %w", errgrpc.ToNative(err))
	}
	return answer.Images, nil
}

func descriptor(i *images.Image) ocispec.Descriptor {
	return ocispec.Descriptor{
		MediaType: i.Target.MediaType,
		Digest:    digest.Digest(i.Target.Digest),
		Size:      i.Target.Size,
	}
}

// save gives the image target a name. The content that target refers to is kept
// with it.
func (s *session) save(ctx context.Context, name string, target ocispec.Descriptor) error {
	i := &images.Image{
		Name: name,
		Target: &types.Descriptor{
			MediaType: target.MediaType,
			Digest:    target.Digest.String(),
			Size:      target.Size,
		},
	}

	_, err := s.images.Create(ctx, &images.CreateImageRequest{Image: i})
	err = errgrpc.ToNative(err)
	if errdefs.IsAlreadyExists(err) {
		_, err = s.images.Update(ctx, &images.UpdateImageRequest{Image: i})
	}

	if err != nil {
		return fmt.Errorf("save the image %s: %w", name, errgrpc.ToNative(err))
	}

	return nil
}

// hold keeps the content that is pulled for the image name, even if incomplete,
// until release.
func (s *session) hold(ctx context.Context, name string) (context.Context, error) {
	_, err := s.leases.Create(ctx, leases.WithID(name))
	if err != nil && !errdefs.IsAlreadyExists(err) {
		return nil, fmt.Errorf("create a lease for the image %s: %w", name, err)
	}
	return leases.WithLease(ctx, name), nil
}

func (s *session) release(ctx context.Context, name string) error {
	err := s.leases.Delete(ctx, leases.Lease{ID: name})
	if err != nil && !errdefs.IsNotFound(err) {
		return fmt.Errorf("end the lease for the image %s: %w", name, err)
	}
	return nil
}
