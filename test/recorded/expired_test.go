package recorded

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"testing"

	"github.com/loam-os/loam/test/cluster"
)

// expired is what an API server says that no longer has the events since the
// resource version asked for.
const expired = `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"too old resource version: 1 (2)","reason":"Expired","code":410}`

func TestAWatchThatExpiresIsGoneOnWithFromTheNewest(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	p := w.interpose()
	w.join(osc("one"))

	for _, tt := range []struct {
		name, last string
		gone       int
	}{
		{"an event of a watch that runs", `{"type":"ERROR","object":` + expired + "}\n", 0},
		{"the answer to a watch that ended", "", 1},
		{"one after the other", `{"type":"ERROR","object":` + expired + "}\n", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w.systemd.Calls()
			before := w.generation()
			resume := w.expire(p, tt.last, tt.gone)
			w.says(osc("missed"))
			w.says(osc("newest"))
			resume()
			w.annotated(osc("newest"))

			calls := w.systemd.Calls()
			if !slices.Equal(calls, []string{"restart a.service"}) || w.generation() != before+1 {
				t.Errorf("jobs %v, generations %d and %d", calls, before, w.generation())
			}

			if p.left() > 0 {
				t.Errorf("%d watches were not asked for", p.left())
			}

			w.becomes(osc("one"))
		})
	}
}

// expire ends the watch of the configuration with a last line. No other watch
// begins until resume; then the first gone watches are answered with 410 Gone.
func (w *fixture) expire(p *proxy, last string, gone int) (resume func()) {
	w.Helper()
	var running *io.PipeWriter
	open := make(chan struct{})
	w.await("a watch of the configuration", func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.running == nil {
			return errors.New("none")
		}
		running = p.running
		p.running = nil
		p.open = open
		p.gone = gone
		return nil
	})

	if _, err := io.WriteString(running, last); err != nil {
		w.Fatal(err)
	}

	running.Close()
	return func() { close(open) }
}

// left counts the requests that are still to be answered with 410.
func (p *proxy) left() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.gone
}

// isGone decides about a watch, as soon as there may be one.
func (p *proxy) isGone(r *http.Request) bool {
	p.mu.Lock()
	open := p.open
	p.mu.Unlock()
	if open != nil {
		select {
		case <-open:
		case <-r.Context().Done():
		}
	}

	p.mu.Lock()
	defer p.mu.Unlock()

	if p.gone == 0 {
		return false
	}

	p.gone--
	return true
}

// isWatch reports whether r watches the Secret with the configuration.
func isWatch(r *http.Request) bool {
	q := r.URL.Query()
	return r.URL.Path == secrets && q.Get("fieldSelector") == "metadata.name="+secretName &&
		q.Get("watch") != ""
}

// tap lets expire end the response to a watch.
func (p *proxy) tap(a *http.Response) error {
	if !isWatch(a.Request) || a.StatusCode != http.StatusOK {
		return nil
	}

	r, w := io.Pipe()
	from := a.Body
	p.copies.Go(func() {
		_, err := io.Copy(w, from)
		w.CloseWithError(err)
	})

	p.mu.Lock()
	p.running = w
	p.mu.Unlock()
	a.Body = &tapped{r, from}

	return nil
}

// tapped ends the stream it reads from.
type tapped struct {
	*io.PipeReader
	from io.Closer
}

func (t *tapped) Close() error { return errors.Join(t.PipeReader.Close(), t.from.Close()) }
