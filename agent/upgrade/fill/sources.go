package fill

import (
	"context"
	"errors"
	"fmt"
	"io"

	"go.uber.org/zap"

	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/repository"
)

// Release says where the release under way is published.
type Release interface {
	// Pack returns the repository of the pack and the name of the pack in it.
	Pack() (ref, name string, err error)
}

// Open returns the sources of a release: mirrors, and the pack in its
// repository. Both are opened when the first chunk is missing, and stay open:
// one connection brings all chunks.
func Open(r Release, mirrors []string, log *zap.Logger) Sources {
	s := Sources{Pack: &lazyPack{release: r}}
	if len(mirrors) > 0 {
		s.Nearby = &lazyMirrors{release: r, refs: mirrors, log: log}
	}
	return s
}

type lazyMirrors struct {
	release Release
	refs    []string
	log     *zap.Logger
	open    *Mirrors
}

// Chunk implements [Nearby].
func (l *lazyMirrors) Chunk(ctx context.Context, c bundle.Chunk, n int) []byte {
	if l.open == nil {
		_, name, err := l.release.Pack()
		if err != nil {
			return nil
		}
		l.open = OpenMirrors(l.refs, name, l.log)
	}
	return l.open.Chunk(ctx, c, n)
}

type lazyPack struct {
	release Release
	open    Pack
}

// Range implements [Pack].
func (l *lazyPack) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	if l.open == nil {
		ref, name, err := l.release.Pack()
		if err != nil {
			return nil, err
		}
		store, err := repository.Open(ref)
		if err != nil {
			return nil, err
		}
		l.open = PackOf(store, name)
	}
	return l.open.Range(ctx, off, n)
}

// Unreached marks the errors of a repository that may go away by themselves as
// [ErrUnreachable].
func Unreached(err error) error {
	for _, final := range []error{
		repository.ErrExpired, repository.ErrRollback, repository.ErrUnsigned, repository.ErrMixed,
		repository.ErrInvalid,
		repository.ErrNotFound, repository.ErrTooLarge, repository.ErrNotKept,
	} {
		if errors.Is(err, final) {
			return err
		}
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", ErrUnreachable, err)
}
