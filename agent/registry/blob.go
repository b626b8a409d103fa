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

// fetch makes containerd have a blob, from where an earlier fetch was cut off.
// containerd takes it only if it has its digest.
//
// One that somebody else writes just now is an error: containerd's own helpers
// would wait for it, and as long for a containerd that has gone.
func (p pull) fetch(ctx context.Context, d ocispec.Descriptor) error {
	d.URLs = nil // Where else a manifest says that layers are is not for it to say.
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
		limited := limit(body, patience, func() { cancel(errSilent) })
		err = errors.Join(contents.Copy(ctx, w, limited, d.Size, d.Digest), limited.Close())
	}

	switch {
	case err == nil:
		return nil
	case errdefs.IsFailedPrecondition(err): // These bytes will never be the blob.
		err = errors.Join(err, w.Close(), p.content.Abort(ctx, ref))
	case errors.Is(context.Cause(ctx), errSilent):
		err = errSilent
	}

	return fmt.Errorf("fetch %s: %w", d.Digest, err)
}

// blob is a blob that containerd has.
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

// limited calls stop when a read takes longer than patience.
type limited struct {
	io.ReadCloser
	patience time.Duration
	timer    *time.Timer
}

func limit(r io.ReadCloser, patience time.Duration, stop func()) *limited {
	timer := time.AfterFunc(patience, stop)
	timer.Stop()
	return &limited{r, patience, timer}
}

func (l *limited) Read(p []byte) (int, error) {
	l.timer.Reset(l.patience)
	defer l.timer.Stop()
	return l.ReadCloser.Read(p)
}

// Seek is how a fetch goes on in the middle.
func (l *limited) Seek(offset int64, whence int) (int64, error) {
	seeker, ok := l.ReadCloser.(io.Seeker)
	if !ok {
		return 0, errors.ErrUnsupported
	}
	return seeker.Seek(offset, whence)
}
