package upgrade_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/image/bundle"
)

// countedMirrors counts the bytes that mirrors give.
type countedMirrors struct {
	*fill.Mirrors
	bytes int64
}

func (c *countedMirrors) Chunk(ctx context.Context, chunk bundle.Chunk, n int) []byte {
	b := c.Mirrors.Chunk(ctx, chunk, n)
	c.bytes += int64(len(b))
	return b
}

// TestANodeSharesWhatItRuns has one machine upgrade from another, without a
// pack.
func TestANodeSharesWhatItRuns(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	c.upgrade("2.0.0", upgrade.Options{})
	c.run(upgrade.Verdict{Word: upgrade.Good})
	s := httptest.NewServer(c.u.Disk.Share(c.running.RootHash, zap.NewNop()))
	t.Cleanup(s.Close)

	other := newCourse(t, "1.0.0", "2.0.0")

	err := other.u.Begin(other.releases[1].index, upgrade.Options{}, upgrade.Facts{})
	if err != nil {
		t.Fatal(err)
	}

	counted := &countedMirrors{
		fill.OpenMirrors([]string{s.URL}, other.releases[1].index.Pack.Name, zap.NewNop()),
		0,
	}

	other.near = counted
	if op := other.run(upgrade.Verdict{}); op.Kind != upgrade.Reboot || counted.bytes == 0 {
		t.Errorf("%v with %d bytes of the other node", op, counted.bytes)
	}

	for path, code := range map[string]int{
		"/chunks/" + strings.Repeat("0", 64): http.StatusNotFound,
		"/chunks/..":                         http.StatusMovedPermanently,
		"/chunks/xyz":                        http.StatusBadRequest,
		"/etc/passwd":                        http.StatusNotFound,
	} {
		client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		}}

		r, err := client.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}

		r.Body.Close()
		if r.StatusCode != code && r.StatusCode != http.StatusTemporaryRedirect {
			t.Errorf("%s: %s", path, r.Status)
		}
	}
}
