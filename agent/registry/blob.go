package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	contents "github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// fetch downloads a blob into containerd and continues an interrupted download.
// containerd accepts the blob only if it matches its digest.
//
// A blob that another client is writing is an error: containerd's own helpers
// would wait for it, even if its containerd is gone.
func (p pull) fetch(ctx context.Context, d ocispec.Descriptor) error {
	d.URLs = nil // A manifest must not name other sources of its layers.
	ref := "loam-" + d.Digest.String()
	w, err := p.content.Writer(ctx, contents.WithRef(ref), contents.WithDescriptor(d))
	if errdefs.IsAlreadyExists(err) {
		return nil
	}

	if err != nil {
		return fmt.Errorf("write %s: %w", d.Digest, err)
	}

	defer w.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)

	body, err := p.fetcher.Fetch(ctx, d)
	if err == nil {
		limited := limit(body, silenceTimeout, func() { cancel(errSilent) })
		err = errors.Join(contents.Copy(ctx, w, limited, d.Size, d.Digest), limited.Close())
	}

	switch {
	case err == nil:
		return nil
	case errdefs.IsFailedPrecondition(err): // These bytes will never match the digest.
		err = errors.Join(err, w.Close(), p.content.Abort(ctx, ref))
	case errors.Is(context.Cause(ctx), errSilent):
		err = errSilent
	}

	return fmt.Errorf("fetch %s: %w", d.Digest, err)
}

// blob reads a blob that containerd has.
func (s *session) blob(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	d.Data = nil
	at, err := s.content.ReaderAt(ctx, d)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", d.Digest, err)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(at, 0, at.Size()), at}, nil
}

// limited calls stop when a read takes longer than silenceTimeout.
type limited struct {
	io.ReadCloser
	timeout time.Duration
	timer   *time.Timer
}

func limit(r io.ReadCloser, timeout time.Duration, stop func()) *limited {
	timer := time.AfterFunc(timeout, stop)
	timer.Stop()
	return &limited{r, timeout, timer}
}

func (l *limited) Read(p []byte) (int, error) {
	l.timer.Reset(l.timeout)
	defer l.timer.Stop()
	return l.ReadCloser.Read(p)
}

// Seek lets a fetch continue in the middle.
func (l *limited) Seek(offset int64, whence int) (int64, error) {
	seeker, ok := l.ReadCloser.(io.Seeker)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return seeker.Seek(offset, whence)
}
