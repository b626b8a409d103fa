package fill

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/image/bundle"
)

// sharedChunks is the path under which a node serves the chunks of its running
// system, each by its SHA-256.
const sharedChunks = "chunks/"

// Share serves the chunks of a node's running system to other nodes, which use
// it as a mirror. open returns the content of the slot, which takes seconds. It
// is called with the first request, and its result stays open.
func Share(open func() ([]Local, error), log *zap.Logger) http.Handler {
	s := &share{
		open:  open,
		log:   log,
		ready: make(chan struct{}),
		reads: make(chan struct{}, maxReads),
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /"+sharedChunks+"{digest}", func(w http.ResponseWriter, r *http.Request) {
		var want bundle.Digest
		if err := want.UnmarshalText([]byte(r.PathValue("digest"))); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}

		s.once.Do(func() { go s.locate() })
		select {
		case <-s.ready:
		case <-time.After(locateTimeout):
			http.NotFound(w, r)
			return
		case <-r.Context().Done():
			return
		}

		b, err := s.read(r.Context(), want)
		switch {
		case err != nil: // The client has gone.
		case b == nil:
			http.NotFound(w, r)
		default:
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Length", strconv.Itoa(len(b)))
			_, _ = w.Write(b) // The other node asks elsewhere.
		}
	})

	return mux
}

// locateTimeout is how long the first requests wait for open: less than
// chunkTimeout.
const locateTimeout = chunkTimeout * 8 / 10

// maxReads is how many chunks are read from the disk, and verified, at once.
const maxReads = 4

type share struct {
	open func() ([]Local, error)
	log  *zap.Logger
	once sync.Once
	// ready is closed when locals is there.
	ready chan struct{}
	// reads has a value for each chunk that is being read. A client that is slow to
	// take its chunk keeps no other one from being read.
	reads  chan struct{}
	locals []Local
}

// read returns a chunk, nil if there is none.
func (s *share) read(ctx context.Context, want bundle.Digest) ([]byte, error) {
	select {
	case s.reads <- struct{}{}:
		defer func() { <-s.reads }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}

	for _, l := range s.locals {
		if b := l.Chunk(want); b != nil {
			return b, nil
		}
	}
	return nil, nil
}

func (s *share) locate() {
	defer close(s.ready)
	locals, err := s.open()
	if err != nil {
		s.log.Warn("share", zap.Error(err))
	}
	s.locals = locals
}
