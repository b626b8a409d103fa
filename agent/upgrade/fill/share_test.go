package fill

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"

	"go.uber.org/zap"

	"github.com/loam-os/loam/image/bundle"
)

// stalled is a client that takes nothing of its answer until it goes.
type stalled struct {
	http.ResponseWriter
	gone chan struct{}
}

func (s stalled) Write(p []byte) (int, error) {
	<-s.gone
	return 0, http.ErrHandlerTimeout
}

// TestClientsThatTakeNothingHoldNoRead has more of them than chunks are read at
// once, and one more node that wants a chunk meanwhile.
func TestClientsThatTakeNothingHoldNoRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		content := noise(7, bundle.ChunkSize)
		local, err := Locate(bytes.NewReader(content), int64(len(content)), bundle.ChunkSize)
		if err != nil {
			t.Fatal(err)
		}
		h := Share(func() ([]Local, error) { return []Local{local}, nil }, zap.NewNop())
		name, err := local.Digests()[0].MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		request := func() *http.Request {
			return httptest.NewRequestWithContext(t.Context(), "GET", "/chunks/"+string(name), nil)
		}

		gone := make(chan struct{})
		defer close(gone)
		for range maxReads + 1 {
			go h.ServeHTTP(stalled{httptest.NewRecorder(), gone}, request())
		}
		synctest.Wait() // until each is stuck in its Write

		w := httptest.NewRecorder()
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			h.ServeHTTP(w, request())
		}()
		synctest.Wait()
		select {
		case <-answered:
		default:
			t.Fatal("a node waits for those that take nothing")
		}
		if !bytes.Equal(w.Body.Bytes(), content) {
			t.Errorf("%d, %d bytes", w.Code, w.Body.Len())
		}
	})
}
