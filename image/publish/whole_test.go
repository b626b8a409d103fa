package publish

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/repository"
)

// TestFromABuildToItsBytes: what a node gets over HTTP, chunk by chunk, is what
// was published.
func TestFromABuildToItsBytes(t *testing.T) {
	f := newFixture(t)
	b := f.bundle("0.2.0")
	_, err := f.tryPublish(b)
	f.ok(err)
	server := httptest.NewServer(http.FileServer(http.Dir(f.dir)))
	defer server.Close()

	s, err := repository.Open(server.URL)
	f.ok(err)

	news, err := repository.Update(t.Context(), s, f.node, f.read("metadata/1.root.json"),
		repository.Clock{Now: f.now})
	if err != nil || len(news.Releases) != 1 {
		t.Fatalf("%v, %v", news, err)
	}

	ix, err := news.Releases[0].Fetch(t.Context(), s)
	f.ok(err)
	for file, part := range map[string]bundle.Part{
		b.Root:   ix.Root,
		b.Verity: ix.Verity,
		b.UKI:    ix.UKI,
	} {
		var got []byte
		for i, c := range part.Chunks {
			body, err := s.Range(t.Context(), ix.Pack.Name, c.At, c.Len)
			f.ok(err)
			packed, err := io.ReadAll(body)
			f.ok(err)
			f.ok(body.Close())
			plain, err := c.Unpack(packed, part.PlainLen(i))
			f.ok(err)
			got = append(got, plain...)
		}

		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes of %d, %v", file, len(got), len(want), err)
		}
	}
}
