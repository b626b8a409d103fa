package upgrade

import (
	"context"
	"io"

	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/repository"
)

// nearby opens the mirrors when a chunk is missing.
func (s *Service) nearby() func(ctx context.Context, c bundle.Chunk, n int) []byte {
	var open *mirrors
	return func(ctx context.Context, c bundle.Chunk, n int) []byte {
		if open == nil {
			idx, err := index(s.Upgrader.Keep)
			if err != nil {
				return nil
			}
			open = openMirrors(s.Mirrors, idx.Pack.Name, s.Log)
		}
		return open.chunk(ctx, c, n)
	}
}

// lazyPack is the pack of the upgrade under way. It is opened when the first chunk
// is missing, and stays so: one connection brings all of them.
type lazyPack struct {
	from  *Service
	store repository.Store
	name  string
}

// Range is of Packed.
func (l *lazyPack) Range(ctx context.Context, off, n int64) (r io.ReadCloser, err error) {
	if l.store == nil {
		if l.store, l.name, err = l.from.pack(); err != nil {
			return nil, err
		}
	}
	return ranged{l.store, l.name}.Range(ctx, off, n)
}

// pack is where the upgrade under way gets its chunks, wherever its index came from.
func (s *Service) pack() (store repository.Store, name string, err error) {
	idx, err := index(s.Upgrader.Keep)
	if err != nil {
		return nil, "", err
	}
	ref := s.Offers.Ref
	if j, err := ReadJournal(s.Upgrader.Keep); err == nil && j != nil && j.Ref != "" {
		ref = j.Ref
	}
	store, err = repository.Open(ref)
	return store, idx.Pack.Name, err
}
