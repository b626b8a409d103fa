package upgrade

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
)

// sharedChunks is where a node serves the chunks of the system that it runs, each by
// its SHA-256.
const sharedChunks = "chunks/"

// Share serves the chunks of the system that a node runs, for other nodes: mirrors of
// theirs. What is in the slot is looked at when somebody asks first.
func (d Disk) Share(running System, log *zap.Logger) http.Handler {
	s := &share{disk: d, running: running, log: log, ready: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /"+sharedChunks+"{digest}", func(w http.ResponseWriter, r *http.Request) {
		var want bundle.Digest
		if err := want.UnmarshalText([]byte(r.PathValue("digest"))); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		s.once.Do(func() { go s.look() })
		select {
		case <-s.ready:
		case <-time.After(maxLook):
			http.NotFound(w, r)
			return
		case <-r.Context().Done():
			return
		}
		for _, l := range s.locals {
			if b := l.read(want); b != nil {
				w.Header().Set("Content-Type", "application/octet-stream")
				w.Header().Set("Content-Length", strconv.Itoa(len(b)))
				_, _ = w.Write(b) // It is the other's loss.
				return
			}
		}
		http.NotFound(w, r)
	})
	return mux
}

// maxLook is how long those who ask first wait: less than they would by themselves.
const maxLook = maxChunk * 8 / 10

type share struct {
	disk    Disk
	running System
	log     *zap.Logger
	once    sync.Once
	// locals is there when ready is closed.
	ready  chan struct{}
	locals []Local
}

// look notes where which chunk of the running slot is, which takes seconds.
func (s *share) look() {
	defer close(s.ready)
	table, err := gpt.Read(s.disk.Whole, s.disk.Size, s.disk.SectorSize)
	var slot partitions.Slot
	if err == nil {
		slot, _, err = s.disk.slots(table, s.running)
	}
	if err == nil {
		s.locals, _, err = s.disk.locals(table, slot) // They stay open.
	}
	if err != nil {
		s.log.Warn("share", zap.Error(err))
	}
}
