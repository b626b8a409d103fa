package registry

import (
	"context"
	"errors"
	"fmt"
	"maps"

	images "github.com/containerd/containerd/api/services/images/v1"
	"github.com/containerd/containerd/v2/core/leases"
	"github.com/containerd/errdefs"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/opencontainers/go-digest"
)

// Keep removes all images except the ones that refs name or that were requested
// since Follow, with their content. It returns when the space is free.
func (r *Registry) Keep(ctx context.Context, refs []string) (err error) {
	if err := r.acquire(ctx); err != nil {
		return err
	}

	defer r.release()
	keep, err := r.kept(refs)
	if err != nil {
		return err
	}

	ctx, s, err := r.connect(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	defer func() { err = s.explain(err) }()

	all, err := s.list(ctx)
	if err != nil {
		return err
	}

	used := map[digest.Digest]bool{}
	var unused []string
	for _, i := range all {
		if keep[i.Name] {
			used[digest.Digest(i.Target.Digest)] = true
		} else {
			unused = append(unused, i.Name)
		}
	}

	r.forget(used)
	return errors.Join(s.releaseOthers(ctx, keep), s.remove(ctx, unused))
}

// kept returns the names of the images that stay.
func (r *Registry) kept(refs []string) (map[string]bool, error) {
	keep := map[string]bool{}
	for _, ref := range refs {
		spec, err := parse(ref)
		if err != nil {
			return nil, err
		}
		keep[spec.String()] = true
	}

	r.mu.Lock()
	defer r.mu.Unlock()

	for name := range r.named {
		keep[name] = true
	}

	return keep, nil
}

// forget drops unused images from the cache.
func (r *Registry) forget(used map[digest.Digest]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.images, func(target digest.Digest, _ image) bool { return !used[target] })
}

// remove removes images. With the last one, containerd collects the content
// that only they had.
func (s *session) remove(ctx context.Context, names []string) error {
	var errs []error
	for i, name := range names {
		_, err := s.images.Delete(ctx,
			&images.DeleteImageRequest{Name: name, Sync: i == len(names)-1})
		err = errgrpc.ToNative(err)
		if err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("remove the image %s: %w", name, err))
		}
	}
	return errors.Join(errs...)
}

// releaseOthers abandons unfinished pulls of other images.
func (s *session) releaseOthers(ctx context.Context, keep map[string]bool) error {
	all, err := s.leases.List(ctx)
	if err != nil {
		return fmt.Errorf("list containerd's leases: %w", err)
	}

	var errs []error
	for _, lease := range all {
		if keep[lease.ID] {
			continue
		}
		err := s.leases.Delete(ctx, lease, leases.SynchronousDelete)
		if err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("end the lease for the image %s: %w", lease.ID, err))
		}
	}

	return errors.Join(errs...)
}
