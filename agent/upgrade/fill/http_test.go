package fill

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/repository"
)

// TestFaultsOfThePacksServer fills a part whose second range goes wrong. What
// is written all the same is right, and the next try, when the server is well
// again, fetches what is missing.
func TestFaultsOfThePacksServer(t *testing.T) {
	content := noise(5, 3*blockSize)
	part, pack := partOf(content)

	// A bad chunk is not the network's doing: the server's file is another.
	for _, test := range []struct {
		name    string
		fault   http.HandlerFunc
		network bool
		err     string
	}{
		{
			"416",
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			},
			true,
			"416",
		},
		{
			"503",
			func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusServiceUnavailable)
			},
			true,
			"503",
		},
		{"404, as of a file that is replaced", http.NotFound, true, "404"},
		{"a pack that is shorter now", served(pack[:blockSize], "new"), true, "416"},
		{
			"one that ends in the range",
			served(pack[:blockSize+blockSize/2], "new"),
			true,
			"Content-Range",
		},
		{
			"an answer that is cut off",
			func(w http.ResponseWriter, r *http.Request) {
				served(pack, "old")(&short{w, 1000}, r)
			},
			true,
			"unexpected EOF",
		},
		{
			"another range",
			func(w http.ResponseWriter, r *http.Request) {
				r.Header.Set("Range", "bytes=0-99")
				served(pack, "old")(w, r)
			},
			true,
			"Content-Range",
		},
		{
			"the whole file, which is right",
			func(w http.ResponseWriter, r *http.Request) {
				r.Header.Del("Range")
				served(pack, "old")(w, r)
			},
			false,
			"",
		},
		{
			"another file from now on, by its ETag",
			served(noise(6, len(pack)), "new"),
			false,
			"chunk at",
		},
		{
			"a redirect in a circle",
			func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, r.URL.Path, http.StatusFound)
			},
			true,
			"redirects",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var asked atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if n := asked.Add(1); n == 2 || (n > 2 && n < 9 && test.err == "redirects") {
					test.fault(w, r)
					return
				}
				served(pack, "old")(w, r)
			}))
			t.Cleanup(s.Close)

			store, err := repository.Open(s.URL)
			if err != nil {
				t.Fatal(err)
			}

			d := make(bytesDevice, len(content))
			j := Job{Target: d, Part: part, Sources: Sources{Pack: PackOf(store, "the.pack")}}
			err = j.Run(t.Context())
			if (err != nil) != (test.err != "") || (err != nil && !strings.Contains(err.Error(),
				test.err)) || errors.Is(err, ErrUnreachable) != test.network {
				t.Errorf("error %v, want %q", err, test.err)
			}

			for i, c := range chunksOf(d, bundle.ChunkSize) {
				at := i * bundle.ChunkSize
				if len(bytes.Trim(c, "\x00")) > 0 && !bytes.Equal(c, content[at:at+len(c)]) {
					t.Errorf("chunk %d is wrong", i)
				}
			}

			j.Stats = Stats{}
			if err := j.Run(t.Context()); err != nil || !bytes.Equal(d, content) ||
				j.Stats.Kept < blockSize {
				t.Errorf("the next try: %+v, %v", j.Stats, err)
			}
		})
	}
}

// served is a web server's file.
func served(content []byte, tag string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"`+tag+`"`)
		http.ServeContent(w, r, "the.pack", time.Time{}, bytes.NewReader(content))
	}
}

// short is an answer that ends before all its bytes are sent.
type short struct {
	http.ResponseWriter
	left int
}

func (s *short) Write(p []byte) (int, error) {
	n, err := s.ResponseWriter.Write(p[:min(len(p), s.left)])
	s.left -= n
	if err == nil && n < len(p) {
		err = http.ErrAbortHandler
	}
	return n, err
}
