package fill

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/loam-os/loam/image/bundle"
)

// TestMirrors fills a part from places near by. None of them is trusted.
func TestMirrors(t *testing.T) {
	const k = bundle.ChunkSize
	content := noise(7, 70*k+k/2)
	part, pack := partOf(content)
	dir := func(name string, pack []byte) string {
		d := t.TempDir()
		if err := os.WriteFile(filepath.Join(d, name), pack, 0o644); err != nil {
			t.Fatal(err)
		}
		return d
	}

	node := func(have []byte, change func([]byte) []byte) string {
		l, err := Locate(bytes.NewReader(have), int64(len(have)), bundle.ChunkSize)
		if err != nil {
			t.Fatal(err)
		}

		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var want bundle.Digest
			if err := want.UnmarshalText([]byte(strings.TrimPrefix(r.URL.Path,
				"/chunks/"))); err != nil {
				http.NotFound(w, r)
			} else if b := l.Chunk(want); b == nil {
				http.NotFound(w, r)
			} else {
				_, _ = w.Write(change(b))
			}
		}))
		t.Cleanup(s.Close)
		return s.URL
	}

	same := func(b []byte) []byte { return b }
	size := int64(len(content))
	for _, test := range []struct {
		name    string
		mirrors []string
		near    int64
	}{
		{"a directory with the pack", []string{dir("the.pack", pack)}, size},
		{
			"a directory with a pack that is cut off, and one that is not",
			[]string{dir("the.pack", pack[:10*k]), dir("the.pack", pack)},
			size,
		},
		{"a directory that is not there", []string{"/nowhere"}, 0},
		{"a directory with another pack", []string{dir("other.pack", pack)}, 0},
		{
			"a directory with another content under that name",
			[]string{dir("the.pack", noise(8, len(pack)))},
			0,
		},
		{"a node that runs it", []string{node(content, same)}, size},
		{"a node that runs half of it", []string{node(content[:40*k], same)}, 40 * k},
		{
			"a node that runs something else, then one that runs it",
			[]string{node(noise(9, 3*k), same), node(content, same)},
			size,
		},
		{
			"a node that lies",
			[]string{node(content, func(b []byte) []byte {
				return append([]byte{b[0] + 1}, b[1:]...)
			})},
			0,
		},
		{"a node that sends too much, and one that sends less", []string{
			node(content, func(b []byte) []byte { return append(bytes.Clone(b), 1) }),
			node(content, func(b []byte) []byte { return b[1:] }),
		}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := make(bytesDevice, len(content))
			j := Job{
				Target: d,
				Part:   part,
				Sources: Sources{
					Nearby: OpenMirrors(test.mirrors, "the.pack", zap.NewNop()),
					Pack:   &counted{packed: pack, left: -1},
				},
			}
			if err := j.Run(t.Context()); err != nil {
				t.Fatal(err)
			}

			if !bytes.Equal(d, content) || j.Stats.Near != test.near ||
				j.Stats.Fetched != size-test.near {
				t.Errorf("%+v, want %d from near by", j.Stats, test.near)
			}
		})
	}
}

// TestAMirrorThatHasNothingIsLeftAlone counts what a node is asked that runs
// something else.
func TestAMirrorThatHasNothingIsLeftAlone(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	}))
	t.Cleanup(s.Close)

	m := OpenMirrors([]string{s.URL}, "the.pack", zap.NewNop())
	for i := range 10 * maxMisses {
		m.Chunk(t.Context(), bundle.Chunk{SHA256: bundle.Digest{byte(i)}, Len: 1}, 1)
	}

	if got := asked.Load(); got > maxMisses+2 {
		t.Errorf("asked %d times", got)
	}
}

func TestTheLogHasNoPasswordOfAMirror(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no", http.StatusServiceUnavailable)
	}))
	defer s.Close()

	core, logs := observer.New(zap.InfoLevel)
	ref := strings.Replace(s.URL, "://", "://ada:s3cret@", 1)
	OpenMirrors([]string{ref}, "a.pack", zap.New(core)).Chunk(t.Context(), bundle.Chunk{Len: 10}, 10)
	if logs.Len() != 1 {
		t.Fatalf("%d lines", logs.Len())
	}
	for key, value := range logs.All()[0].ContextMap() {
		if strings.Contains(value.(string), "s3cret") {
			t.Errorf("%s: %s", key, value)
		}
	}
}
