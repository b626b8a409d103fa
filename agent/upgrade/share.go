package upgrade

import (
	"net/http"
	"strconv"
	"sync"

	"go.uber.org/zap"

	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions/gpt"
)

// sharedChunks is where a node serves the chunks of the system that it runs, each by
// its SHA-256.
const sharedChunks = "chunks/"

// maxShared is how many chunks are read at once: others wait.
const maxShared = 4

// Share serves the chunks of the system that a node runs, for other nodes: mirrors of
// theirs. What is in the slot is looked at when somebody asks first.
func (d Disk) Share(running System, log *zap.Logger) http.Handler {
	s := &share{disk: d, running: running}
	slots := make(chan struct{}, maxShared)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /"+sharedChunks+"{digest}", func(w http.ResponseWriter, r *http.Request) {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-r.Context().Done():
			return
		}
		var want bundle.Digest
		if err := want.UnmarshalText([]byte(r.PathValue("digest"))); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		b, err := s.chunk(want)
		switch {
		case err != nil:
			log.Warn("share", zap.Error(err))
			http.Error(w, "the system of this node cannot be read", http.StatusInternalServerError)
		case b == nil:
			http.NotFound(w, r)
		default:
			w.Header().Set("Content-Type", "application/octet-stream")
			w.Header().Set("Content-Length", strconv.Itoa(len(b)))
			_, _ = w.Write(b) // It is the other's loss.
		}
	})
	return mux
}

type share struct {
	disk    Disk
	running System
	mu      sync.Mutex
	locals  []Local
}

// chunk is nil if the system has none of that digest.
func (s *share) chunk(want bundle.Digest) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.locals == nil {
		table, err := gpt.Read(s.disk.Whole, s.disk.Size, s.disk.SectorSize)
		if err != nil {
			return nil, err
		}
		slot, _, err := s.disk.slots(table, s.running)
		if err != nil {
			return nil, err
		}
		if s.locals, _, err = s.disk.locals(table, slot); err != nil { // They stay open.
			return nil, err
		}
	}
	for _, l := range s.locals {
		if b := l.read(want); b != nil {
			return b, nil
		}
	}
	return nil, nil
}
