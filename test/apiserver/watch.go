package apiserver

import (
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
)

const (
	// bookmarkPause is how often a watch says how far it is.
	bookmarkPause = time.Minute

	// watchTime is how long a watch lasts whose request does not say so.
	watchTime = 30 * time.Minute
)

// watcher is a watch that is under way.
type watcher struct {
	selection selection

	// news is signalled when there are changes to send.
	news chan struct{}

	mu      sync.Mutex
	changes []change
}

// send puts a change into the queue, which has no limit.
func (w *watcher) send(ch change) {
	if w.selection.eventOf(ch) == "" {
		return
	}
	w.mu.Lock()
	w.changes = append(w.changes, ch)
	w.mu.Unlock()
	select {
	case w.news <- struct{}{}:
	default:
	}
}

// take empties the queue.
func (w *watcher) take() []change {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := w.changes
	w.changes = nil
	return changes
}

// watch sends the changes of the objects that a request selects until its time
// is over.
func (s *Server) watch(to http.ResponseWriter, q request) error {
	selection, err := q.selection()
	if err != nil {
		return err
	}

	out := stream{to: to, request: q}
	w := &watcher{selection: selection, news: make(chan struct{}, 1)}
	number, err := s.begin(w, q)
	defer s.end(w, q)

	to.Header().Set("Content-Type", q.to.MediaType+";stream=watch")
	to.WriteHeader(http.StatusOK)
	if err != nil {
		return out.event(watch.Error, statusOf(err), schema.GroupVersion{Version: "v1"})
	}
	if err := out.changes(w); err != nil {
		return nil // The client is gone.
	}
	bookmarks := isTrue(q.Request, "allowWatchBookmarks")
	if isTrue(q.Request, "sendInitialEvents") && bookmarks {
		if err := out.bookmark(number, true); err != nil {
			return nil
		}
	}
	out.flush()
	s.follow(w, out, bookmarks)
	return nil
}

// follow sends changes and bookmarks.
func (s *Server) follow(w *watcher, out stream, bookmarks bool) {
	lasts := watchTime
	if seconds, _ := strconv.Atoi(out.request.URL.Query().Get("timeoutSeconds")); seconds > 0 {
		lasts = time.Duration(seconds) * time.Second
	}
	end := time.NewTimer(lasts)
	defer end.Stop()
	var marks <-chan time.Time
	if bookmarks {
		ticker := time.NewTicker(bookmarkPause)
		defer ticker.Stop()
		marks = ticker.C
	}

	for {
		var err error
		select {
		case <-out.request.Context().Done():
			return
		case <-end.C:
			return
		case <-w.news:
			err = out.changes(w)
		case <-marks:
			s.mu.Lock()
			number := s.number
			s.mu.Unlock()
			err = out.changes(w) // What is before the mark.
			if err == nil {
				err = out.bookmark(number, false)
			}
		}
		if err != nil {
			return
		}
		out.flush()
	}
}

// begin makes w a watcher with what it has missed, and returns the present
// resource version.
func (s *Server) begin(w *watcher, q request) (uint64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.collection(q)

	text := q.URL.Query().Get("resourceVersion")
	from, err := strconv.ParseUint(text, 10, 64)
	switch {
	case text == "" || text == "0" || isTrue(q.Request, "sendInitialEvents"):
		for _, v := range c.find(w.selection) {
			w.send(change{after: v})
		}
	case err != nil:
		return 0, errors.NewBadRequest("resourceVersion: " + err.Error())
	default:
		missed, ok := c.since(from)
		if !ok {
			return 0, errors.NewResourceExpired(
				fmt.Sprintf("too old resource version: %d (%d)", from, c.oldest))
		}
		for _, ch := range missed {
			w.send(ch)
		}
	}

	if key, ok := w.selection.key(q.kind); ok {
		if c.named[key] == nil {
			c.named[key] = map[*watcher]bool{}
		}
		c.named[key][w] = true
	} else {
		c.watchers[w] = true
	}
	return s.number, nil
}

// end ends a watcher.
func (s *Server) end(w *watcher, q request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.collection(q)
	delete(c.watchers, w)
	if key, ok := w.selection.key(q.kind); ok {
		delete(c.named[key], w)
		if len(c.named[key]) == 0 {
			delete(c.named, key)
		}
	}
}

// stream is the answer to a watch.
type stream struct {
	to      http.ResponseWriter
	request request
}

// changes sends the queue of a watcher.
func (s stream) changes(w *watcher) error {
	for _, ch := range w.take() {
		text, err := ch.after.encode(s.request)
		if err != nil {
			return err
		}
		if err := s.raw(w.selection.eventOf(ch), text); err != nil {
			return err
		}
	}
	return nil
}

// bookmark sends a resource version; first says that all objects were sent.
func (s stream) bookmark(number uint64, first bool) error {
	o := s.request.kind.empty()
	o.SetResourceVersion(strconv.FormatUint(number, 10))
	if first {
		o.SetAnnotations(map[string]string{meta.InitialEventsAnnotationKey: "true"})
	}
	if s.request.as == asMetadata {
		return s.event(watch.Bookmark, metadataOf(o), metaVersion)
	}
	return s.event(watch.Bookmark, o, s.request.kind.version)
}

// event sends an event with an object.
func (s stream) event(kind watch.EventType, o runtime.Object, of schema.GroupVersion) error {
	text, err := runtime.Encode(codecs.EncoderForVersion(s.request.to.Serializer, of), o)
	if err != nil {
		return err
	}
	return s.raw(kind, text)
}

// raw sends an event with an encoded object.
func (s stream) raw(kind watch.EventType, text []byte) error {
	to := s.request.to.StreamSerializer
	e := &meta.WatchEvent{Type: string(kind), Object: runtime.RawExtension{Raw: text}}
	framed, err := runtime.Encode(
		codecs.EncoderForVersion(to.Serializer, schema.GroupVersion{Version: "v1"}), e)
	if err != nil {
		return err
	}
	_, err = to.Framer.NewFrameWriter(s.to).Write(framed)
	return err
}

func (s stream) flush() {
	if f, ok := s.to.(http.Flusher); ok {
		f.Flush()
	}
}
