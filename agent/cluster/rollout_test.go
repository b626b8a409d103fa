package cluster

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
)

// leaseServer is an API server with one Lease. It fails the next writes, as
// many as refuses says, and forbids all requests if forbids is set.
type leaseServer struct {
	lease    *coordination.Lease
	refuses  int
	requests int
	forbids  bool
}

func (l *leaseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.requests++
	w.Header().Set("Content-Type", "application/json")

	switch {
	case l.forbids:
		w.WriteHeader(http.StatusForbidden)
		return
	case r.Method == http.MethodGet && l.lease == nil:
		w.WriteHeader(http.StatusNotFound)
		return
	case r.Method == http.MethodGet:
	case l.refuses > 0:
		l.refuses--
		w.WriteHeader(http.StatusInternalServerError)
		return
	default:
		lease, err := leaseIn(r.Body)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		l.lease = lease
		l.lease.ResourceVersion += "1"
	}

	answer := l.lease.DeepCopy()
	answer.APIVersion = "coordination.k8s.io/v1"
	answer.Kind = "Lease"
	_ = json.NewEncoder(w).Encode(answer)
}

// leaseIn decodes the body of a request: four bytes, then the Lease in an
// envelope (k8s.io/apimachinery, runtime/serializer/protobuf).
func leaseIn(body io.Reader) (*coordination.Lease, error) {
	text, err := io.ReadAll(body)
	if err != nil || len(text) < 4 {
		return nil, errors.Join(err, io.ErrUnexpectedEOF)
	}

	var envelope runtime.Unknown
	if err := envelope.Unmarshal(text[4:]); err != nil {
		return nil, err
	}

	lease := &coordination.Lease{}
	return lease, lease.Unmarshal(envelope.Raw)
}

// The watch does not report a Lease that was not written.
func TestRolloutIsRenewedAfterAnError(t *testing.T) {
	server := &leaseServer{}
	now := noon
	uptime := time.Duration(0)
	s := newRolloutSession(t, server, &uptime)
	s.Now = func() time.Time { return now }

	if ok, err := s.acquireRollout(t.Context(), *s.pending); err != nil || !ok {
		t.Fatalf("take the Lease: %v %v", ok, err)
	}

	server.refuses = 1
	now = now.Add(2 * rolloutRenew)

	if err := s.renewOrReleaseRollout(t.Context()); err == nil {
		t.Error("no error for a Lease that was not written")
	}
	if err := s.renewOrReleaseRollout(t.Context()); err != nil {
		t.Fatal(err)
	}
	if at := server.lease.Spec.RenewTime; !at.Time.Equal(now) {
		t.Errorf("renewed at %s, and it is %s", at, now)
	}
}

// The clock of the holder may be ahead or behind.
func TestRolloutExpiresByTheObserversClock(t *testing.T) {
	const term = 10 * time.Minute
	for _, tt := range []struct {
		name  string
		ahead time.Duration
	}{
		{"by the same clock", 0},
		{"by a clock that is hours ahead", 5 * time.Hour},
		{"by a clock that is hours behind", -5 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			other := "other"
			seconds := int32(term / time.Second)
			renewed := meta.NewMicroTime(noon.Add(tt.ahead))
			lease := &coordination.Lease{Spec: coordination.LeaseSpec{
				HolderIdentity:       &other,
				LeaseDurationSeconds: &seconds,
				RenewTime:            &renewed,
			}}

			lease.Name = "pool"
			lease.ResourceVersion = "1"
			server := &leaseServer{lease: lease}
			uptime := time.Hour
			s := newRolloutSession(t, server, &uptime)
			s.rollout.lease = lease
			s.rollout.known = true

			mayRollOut := func(after time.Duration) bool {
				t.Helper()
				uptime += after
				ok, err := s.mayRollOut(t.Context(), *s.pending, true)
				if err != nil {
					t.Fatal(err)
				}
				return ok
			}
			if mayRollOut(0) || mayRollOut(term-time.Second) {
				t.Error("taken from a node whose Lease may be valid")
			}

			again := lease.DeepCopy()
			again.ResourceVersion = "2"
			again.Spec.RenewTime.Time = renewed.Add(time.Second)
			server.lease = again
			s.rollout.lease = again

			if mayRollOut(2*time.Second) || mayRollOut(term-time.Second) {
				t.Error("taken from a node that has renewed its Lease")
			}
			if !mayRollOut(time.Second) {
				t.Error("not taken from a node that is gone")
			}
		})
	}
}

// newRolloutSession returns a session of node "me" with an API server, in a
// pool with a serial rollout. Its wall clock stands still.
func newRolloutSession(t *testing.T, server http.Handler, uptime *time.Duration) *session {
	t.Helper()
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)

	a, err := newAPI(&rest.Config{Host: listening.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)

	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })

	env := Env{
		Root:   root,
		Now:    func() time.Time { return noon },
		Uptime: func() time.Duration { return *uptime },
	}

	s := &session{
		Cluster:    New(Config{Hostname: "me"}, env),
		api:        a,
		rollout:    rollout{name: "pool", known: true},
		rejections: map[int]rejection{},
	}

	s.nodeKnown = true
	s.node = &core.Node{}
	s.pending = &pendingConfig{secret: "pool", serial: true, sum: "sum"}

	return s
}
