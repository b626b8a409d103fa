package recorded

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster"
)

// refusal makes the proxy refuse the requests that match it.
type refusal struct {
	mu sync.Mutex
	// of is nil if none; code and reason are what they are answered.
	of     func(r *http.Request) bool
	code   int
	reason string
	// at is when each came, over is closed at their end.
	at   []time.Time
	over chan struct{}
}

// hangs is the code of an answer that does not come before the end.
const hangs = 0

// begin refuses from now on; what it returns ends that.
func (f *refusal) begin(code int, reason string, of func(r *http.Request) bool) (end func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	over := make(chan struct{})
	f.of = of
	f.code = code
	f.reason = reason
	f.at = nil
	f.over = over

	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.of = nil
		close(over)
	}
}

// once refuses a single renewal of the Lease.
func (f *refusal) once(code int, reason string) {
	f.begin(code, reason, func(r *http.Request) bool { return isRenewal(r) && len(f.at) == 0 })
}

func (f *refusal) answer(w http.ResponseWriter, r *http.Request) bool {
	f.mu.Lock()
	defer f.mu.Unlock()

	switch {
	case f.of == nil || !f.of(r):
		return false
	case f.code == hangs:
		over := f.over
		f.at = append(f.at, time.Now())
		f.mu.Unlock()
		defer f.mu.Lock()

		select {
		case <-r.Context().Done():
		case <-over:
		}

		return true
	}

	f.at = append(f.at, time.Now())
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.code)
	_, _ = fmt.Fprintf(w,
		`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"refused by the test","reason":%q,"code":%d}`, f.reason, f.code)

	return true
}

// came waits for a refused request that came so long after the first one, and
// returns how many were before it.
func (w *fixture) came(f *refusal, later time.Duration) (before int) {
	w.Helper()
	w.await("a refused request", func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		for i, at := range f.at {
			before = i
			if at.Sub(f.at[0]) >= later {
				return nil
			}
		}
		return fmt.Errorf("%d requests", len(f.at))
	})
	return before
}

// isRenewal reports whether r renews a Lease.
func isRenewal(r *http.Request) bool {
	return r.Method == "PUT" && strings.HasPrefix(r.URL.Path, leases)
}

// isKnown reports whether r comes from a node that shows a certificate.
func isKnown(r *http.Request) bool { return len(r.TLS.PeerCertificates) > 0 }

// leaseDue has the node renew its Lease with the next thing that it sees.
func (w *fixture) leaseDue() {
	w.Helper()
	w.poke()
	w.ahead.Add(int64(61 * time.Second))
	w.must("PATCH", nodes+"/node-1",
		fmt.Sprintf(`{"metadata": {"annotations": {"due": "%d"}}}`, w.ahead.Load()))
}

func TestAnAPIServerThatRefuses(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	refused := &refusal{}
	w.interpose().answers = refused.answer

	// A pause is as long as it says.
	w.adjust = func(n *Node) { n.Cluster.Env.Part = func() float64 { return 0.5 } }
	token := w.BootstrapToken(t)
	end := refused.begin(403, "Forbidden", func(r *http.Request) bool {
		return r.URL.Query().Get("fieldSelector") == "metadata.name=token"
	})

	w.join(osc("one"))
	t.Run("a token that may not be read is told, and all else goes on", func(*testing.T) {
		w.await("the problem", func() error {
			l := w.node.Cluster.Link()
			if !l.Connected || !strings.Contains(l.Problem, "refused by the test") {
				return fmt.Errorf("%+v", l)
			}
			return nil
		})
		w.becomes(osc("two"))
	})

	end()
	w.stop()
	w.startAgain() // It has a certificate and no token.
	w.poke()

	t.Run("one write that failed does not disconnect the node", func(t *testing.T) {
		before := w.node.Cluster.Link().Since
		refused.once(409, "Conflict")
		w.leaseDue()
		w.came(refused, 0)
		w.renewsItsLease()

		if l := w.node.Cluster.Link(); !l.Connected || !l.Since.Equal(before) || l.Problem != "" {
			t.Errorf("%+v, not connected since %s", l, before)
		}
	})

	t.Run("a certificate that is not taken is shown seldom", func(t *testing.T) {
		end := refused.begin(401, "Unauthorized", isKnown)
		w.leaseDue()
		// The pauses are 1 s and 2 s: before the last, there was the renewal
		// that ended the first session, and what another begins with.
		if n := w.came(refused, 2500*time.Millisecond); n > 8 {
			t.Errorf("%d requests", n)
		}
		end()
		w.becomes(osc("three"))
	})

	t.Run("a certificate that was not taken once is shown again if the token is too old",
		func(*testing.T) {
			w.stop()
			id, _, _ := strings.Cut(token, ".")
			w.must("DELETE", secrets+"/bootstrap-token-"+id, "")
			w.start(w.node.Dir, token) // machine.yaml keeps the token for ever.
			w.becomes(osc("four"))
			refused.once(401, "Unauthorized")
			w.leaseDue()
			w.came(refused, 0)
			w.becomes(osc("five"))
		})

	t.Run("a PATCH that hangs holds up no Lease", func(*testing.T) {
		w.poke()
		end := refused.begin(hangs, "", func(r *http.Request) bool {
			return r.Method == "PATCH" && r.URL.Path == nodes+"/node-1"
		})
		defer end()

		w.says(osc("six"))
		w.came(refused, 0)
		since := w.now().Add(61 * time.Second)
		w.ahead.Add(int64(61 * time.Second))

		w.await("the Lease", func() error {
			l, err := w.get(nodeLease)
			if at := l.Spec.RenewTime; err == nil && at.Before(since.Truncate(time.Microsecond)) {
				err = fmt.Errorf("renewed at %s", at)
			}
			return err
		})

		w.file("etc/a", "six")
	})
}
