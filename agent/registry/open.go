package registry

import (
	"context"
	"errors"
	"fmt"
	"io"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// open reads a file of a layer again. Closing the reader closes the session.
func (r *Registry) open(layer ocispec.Descriptor, f *file) (io.ReadCloser, error) {
	// The reader outlives the caller's context. A timeout ends it if containerd
	// hangs.
	ctx, s, err := r.connect(context.Background())
	if err != nil {
		return nil, err
	}
	o := &opened{session: s, closers: []func() error{func() error { s.close(); return nil }}}
	if err := o.open(ctx, s, layer, f.member); err != nil {
		err = errors.Join(fmt.Errorf("read layer %s: %w", layer.Digest, err), o.Close())
		return nil, s.explain(err)
	}
	return o, nil
}

// opened is a member of a layer's archive.
type opened struct {
	*archive
	session *session
	closers []func() error // from last to first
}

func (o *opened) open(ctx context.Context, s *session, layer ocispec.Descriptor, member int) error {
	blob, err := s.blob(ctx, layer)
	if err != nil {
		return err
	}

	o.closers = append([]func() error{blob.Close}, o.closers...)
	o.archive, err = openArchive(blob)
	if err != nil {
		return err
	}

	o.closers = append([]func() error{o.archive.Close}, o.closers...)
	return o.seek(member)
}

// Read implements [io.Reader].
func (o *opened) Read(p []byte) (int, error) {
	n, err := o.archive.Read(p)
	if errors.Is(err, io.EOF) {
		return n, err
	}
	return n, o.session.explain(err)
}

// Close reports no read error: the reader compares the digest.
func (o *opened) Close() error {
	for _, close := range o.closers {
		_ = close()
	}
	return nil
}
