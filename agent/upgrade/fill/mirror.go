package fill

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/hint/redact"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/repository"
)

// Mirrors are places close by that may have chunks of the upgrade under way:
// copies of the repository, or nodes that share what they run. None is trusted:
// the signed index says what a chunk has to be.
type Mirrors struct {
	all  []*mirror
	pack string
	log  *zap.Logger
}

type mirror struct {
	ref   string
	store repository.Store
	// shared says that the mirror is a node, with single chunks in place of a
	// pack.
	shared bool
	misses int
}

// maxMisses is how many chunks in a row a node may lack until it is no longer
// asked: it runs something else.
const maxMisses = 64

// OpenMirrors opens the mirrors of a pack. Mirrors that cannot be opened are
// left out.
func OpenMirrors(refs []string, pack string, log *zap.Logger) *Mirrors {
	m := &Mirrors{pack: pack, log: log}
	for _, ref := range refs {
		store, err := repository.Open(ref, repository.Mirror())
		if err != nil {
			log.Warn("mirror", zap.Error(err))
			continue
		}
		m.all = append(m.all, &mirror{ref: ref, store: store})
	}
	return m
}

// chunkTimeout is how long a mirror may take for one chunk. A slower one is no
// help.
const chunkTimeout = 10 * time.Second

// Chunk implements [Nearby]. A mirror that fails is not asked again.
func (m *Mirrors) Chunk(ctx context.Context, c bundle.Chunk, n int) []byte {
	for i := 0; i < len(m.all); i++ {
		at := m.all[i]
		limited, cancel := context.WithTimeout(ctx, chunkTimeout)
		b, err := at.read(limited, m.pack, c, n)
		cancel()

		switch {
		case err == nil:
			at.misses = 0
			return b
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, repository.ErrNotFound) && at.misses < maxMisses:
			at.misses++
			continue
		}

		m.log.Info("mirror", zap.String("at", redact.URLs(at.ref)), zap.Error(err))
		m.all = append(m.all[:i], m.all[i+1:]...)
		i--
	}

	return nil
}

// errOther says that a chunk is not what the index says.
var errOther = errors.New("it has another content under that name")

func (m *mirror) read(
	ctx context.Context, pack string, c bundle.Chunk, n int,
) (b []byte, err error) {
	if !m.shared {
		packed := make([]byte, c.Len)
		_, err = readPack(ctx, PackOf(m.store, pack), c.At, packed)
		if err == nil {
			return c.Unpack(packed, n)
		}
		m.shared = errors.Is(err, repository.ErrNotFound)
		if !m.shared {
			return nil, err
		}
	}

	b, err = m.store.Get(ctx, sharedChunks+c.SHA256.String(), int64(n))
	if err == nil && sha256.Sum256(b) != c.SHA256 {
		err = errOther
	}

	return b, err
}

// PackOf returns the pack of that name in a store.
func PackOf(store repository.Store, name string) Pack { return storedPack{store, name} }

type storedPack struct {
	store repository.Store
	name  string
}

// Range implements [Pack].
func (p storedPack) Range(ctx context.Context, off, n int64) (io.ReadCloser, error) {
	return p.store.Range(ctx, p.name, off, n)
}
