package registry

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/loam-os/loam/test/cluster"
)

// front is a proxy of a real registry. It counts requests and lets a test spoil
// them.
type front struct {
	*httptest.Server
	mu       sync.Mutex
	requests []string // "GET /v2/… [Range]"
	// spoil answers instead of the registry if it returns true. It may be nil.
	spoil func(w http.ResponseWriter, q *http.Request) bool
}

func newFront(t *testing.T, behind *cluster.Registry) *front {
	t.Helper()
	to, err := url.Parse(behind.URL())
	if err != nil {
		t.Fatal(err)
	}

	f := &front{}
	proxy := &httputil.ReverseProxy{
		Rewrite: func(q *httputil.ProxyRequest) { q.SetURL(to); q.Out.Host = to.Host },
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler)
		},
	}

	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		f.mu.Lock()
		f.requests = append(f.requests,
			strings.TrimSpace(q.Method+" "+q.URL.Path+" "+q.Header.Get("Range")))
		spoil := f.spoil
		f.mu.Unlock()
		if spoil == nil || !spoil(w, q) {
			proxy.ServeHTTP(w, q)
		}
	}))

	f.Config.ErrorLog = nil
	t.Cleanup(f.Close)
	return f
}

// host returns the registry part of references to it.
func (f *front) host() string { return strings.TrimPrefix(f.URL, "http://") }

func (f *front) spoilWith(spoil func(w http.ResponseWriter, q *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.spoil = spoil
}

// asked returns how many requests contain text since its last call.
func (f *front) asked(text string) int {
	f.mu.Lock()
	defer f.mu.Unlock()

	n := 0
	for _, q := range f.requests {
		if strings.Contains(q, text) {
			n++
		}
	}

	f.requests = nil
	return n
}

// stopInTheMiddle stops the registry after 4 MiB of a large layer.
func (f *front) stopInTheMiddle(t *testing.T, behind *cluster.Registry) {
	f.spoilWith(func(w http.ResponseWriter, q *http.Request) bool {
		if !strings.Contains(q.URL.Path, "/blobs/") || q.Header.Get("Range") != "" {
			return false
		}

		const most = 4 << 20
		a, err := http.Get(behind.URL() + q.URL.Path)
		if err != nil { // It has stopped.
			panic(http.ErrAbortHandler)
		}
		defer a.Body.Close()

		if a.ContentLength <= most {
			return false
		}

		w.Header().Set("Content-Length", strconv.FormatInt(a.ContentLength, 10))
		_, _ = io.CopyN(w, a.Body, most)
		behind.Stop(t)
		panic(http.ErrAbortHandler)
	})
}
