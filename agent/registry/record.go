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

// record is what the image name was when it was pulled last, whole.
func (s *session) record(ctx context.Context, name string) (ocispec.Descriptor, bool, error) {
	answer, err := s.images.Get(ctx, &images.GetImageRequest{Name: name})
	err = errgrpc.ToNative(err)
	if errdefs.IsNotFound(err) {
		return ocispec.Descriptor{}, false, nil
	}

	if err != nil {
		return ocispec.Descriptor{}, false, fmt.Errorf("ask containerd for the image %s: %w",
			name, err)
	}

	return descriptor(answer.Image), true, nil
}

// having is an image of whatever name with that digest.
func (s *session) having(
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
		return nil, fmt.Errorf("ask containerd for images: %w", errgrpc.ToNative(err))
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

// keep makes name the image target. What target refers to is kept with it.
func (s *session) keep(ctx context.Context, name string, target ocispec.Descriptor) error {
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
		return fmt.Errorf("keep the image %s: %w", name, errgrpc.ToNative(err))
	}

	return nil
}

// hold keeps what is pulled for the image name, also half of it, until release.
func (s *session) hold(ctx context.Context, name string) (context.Context, error) {
	_, err := s.leases.Create(ctx, leases.WithID(name))
	if err != nil && !errdefs.IsAlreadyExists(err) {
		return nil, fmt.Errorf("lease for the image %s: %w", name, err)
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
