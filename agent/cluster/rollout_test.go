package cluster

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	coordination "k8s.io/api/coordination/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	"github.com/loam-os/loam/agent/status"
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

func TestTurnOf(t *testing.T) {
	lease := func(holder string) *coordination.Lease {
		renewed := meta.NewMicroTime(noon)
		term := int32(600)
		return &coordination.Lease{Spec: coordination.LeaseSpec{
			HolderIdentity:       &holder,
			RenewTime:            &renewed,
			LeaseDurationSeconds: &term,
		}}
	}

	for _, tt := range []struct {
		name      string
		lease     *coordination.Lease
		unchanged time.Duration
		want      turn
	}{
		{"no Lease", nil, 0, turn{state: turnFree}},
		{"released", &coordination.Lease{}, 0, turn{state: turnFree}},
		{"without a holder", lease(""), 0, turn{state: turnFree}},
		{"ours", lease("me"), time.Hour, turn{state: turnOurs, holder: "me"}},
		{
			"another's",
			lease("other"),
			time.Minute,
			turn{state: turnTaken, holder: "other", rest: 9 * time.Minute},
		},
		{"another's, expired", lease("other"), 10 * time.Minute, turn{state: turnFree}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := turnOf(tt.lease, "me", tt.unchanged); got != tt.want {
				t.Errorf("%+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestLeaseObservationRestartsOnChange(t *testing.T) {
	me := "me"
	other := "other"
	first := &coordination.Lease{
		ObjectMeta: meta.ObjectMeta{Name: "pool"},
		Spec:       coordination.LeaseSpec{HolderIdentity: &me},
	}

	touched := first.DeepCopy()
	given := first.DeepCopy()
	another := first.DeepCopy()
	touched.ResourceVersion = "2"
	given.Spec.HolderIdentity = &other
	another.Name = "pool-2"

	for _, tt := range []struct {
		name  string
		lease *coordination.Lease
		want  time.Duration
	}{
		{"the same", first, time.Minute},
		{"written without a change of its spec", touched, time.Minute},
		{"with another holder", given, time.Hour},
		{"of another name", another, time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := (observedLease{}).next(first, time.Minute).next(tt.lease, time.Hour).at
			if got != tt.want {
				t.Errorf("seen at %s, want %s", got, tt.want)
			}
		})
	}
}

func TestDecideRollout(t *testing.T) {
	ours := turn{state: turnOurs, holder: "me"}
	for _, tt := range []struct {
		name string
		edit func(w *world)
		turn turn
		want rolloutAction
		wake time.Duration
	}{
		{"another node's turn", func(*world) {}, turn{state: turnTaken}, rolloutWait, 0},
		{"a free Lease", func(*world) {}, turn{state: turnFree}, rolloutWait, 0},
		{"just taken", func(w *world) { w.now = noon }, ours, rolloutWait, rolloutRenew},
		{"while it is applied", func(*world) {}, ours, rolloutRenewal, 2 * rolloutRenew},
		{
			"after the clock was set back",
			func(w *world) {
				w.now = noon.Add(-time.Hour)
			},
			ours,
			rolloutRenewal,
			rolloutRenew - time.Hour,
		},
		{
			"while it is on trial",
			func(w *world) {
				w.ready = "new"
				w.status.Change = &status.Change{}
			},
			ours,
			rolloutRenewal,
			2 * rolloutRenew,
		},
		{"once it is applied", func(w *world) { w.ready = "new" }, ours, rolloutRelease, 0},
		{
			"once it is refused",
			func(w *world) {
				w.status.Offered = "new"
				w.status.Refused = true
			},
			ours,
			rolloutWait,
			0,
		},
		{
			"once it is held by an operator",
			func(w *world) {
				w.status.Offered = "new"
				w.status.Held = &status.Held{}
			},
			ours,
			rolloutWait,
			0,
		},
		{
			"after the one before was refused",
			func(w *world) {
				w.status.Refused = true
			},
			ours,
			rolloutRenewal,
			2 * rolloutRenew,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			w.now = noon.Add(rolloutRenew)
			tt.edit(&w)

			lease := &coordination.Lease{}
			holdRollout(lease, w.pending, "me", noon)
			got, out := decideRollout(w, lease, tt.turn)

			want := outcome{}
			if tt.wake != 0 {
				want.wake = noon.Add(tt.wake)
			}
			if got != tt.want || out != want {
				t.Errorf("%s %+v, want %s %+v", got, out, tt.want, want)
			}
		})
	}
}

func TestRolloutLeaseKeepsItsAcquireTimeWhileItIsRenewed(t *testing.T) {
	p := &pendingConfig{secret: "pool", uid: "1"}
	lease := &coordination.Lease{}
	holdRollout(lease, p, "me", noon)
	holdRollout(lease, p, "me", noon.Add(time.Minute))

	if got := lease.Spec.AcquireTime; !got.Time.Equal(noon) {
		t.Errorf("acquired at %s", got)
	}
	if got := lease.Spec.RenewTime; !got.Time.Equal(noon.Add(time.Minute)) {
		t.Errorf("renewed at %s", got)
	}

	holdRollout(lease, p, "other", noon.Add(time.Hour))
	if got := lease.Spec.AcquireTime; !got.Time.Equal(noon.Add(time.Hour)) {
		t.Errorf("acquired by another node at %s", got)
	}
}

// The watch does not report a Lease that was not written.
func TestRolloutIsRenewedAfterAnError(t *testing.T) {
	server := &leaseServer{}
	uptime := time.Duration(0)
	c := newTestRollout(t, server, &uptime)
	w := newWorld()
	w.pending.serial = true

	if ok, err := c.acquire(t.Context(), w); err != nil || !ok {
		t.Fatalf("take the Lease: %v %v", ok, err)
	}

	server.refuses = 1
	w.now = w.now.Add(2 * rolloutRenew)

	if _, err := c.step(t.Context(), &w); err == nil {
		t.Error("no error for a Lease that was not written")
	}
	if _, err := c.step(t.Context(), &w); err != nil {
		t.Fatal(err)
	}
	if at := server.lease.Spec.RenewTime; !at.Time.Equal(w.now) {
		t.Errorf("renewed at %s, and it is %s", at, w.now)
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
			uptime := time.Hour
			c := newTestRollout(t, &leaseServer{}, &uptime)
			c.see(lease)

			isFree := func(after time.Duration) bool {
				uptime += after
				w := newWorld()
				w.uptime = uptime
				return c.turn(w).state == turnFree
			}

			if isFree(0) || isFree(term-time.Second) {
				t.Error("taken from a node whose Lease may be valid")
			}

			again := lease.DeepCopy()
			again.ResourceVersion = "2"
			again.Spec.RenewTime.Time = renewed.Add(time.Second)
			c.see(again)

			if isFree(2*time.Second) || isFree(term-3*time.Second) {
				t.Error("taken from a node that has renewed its Lease")
			}
			if !isFree(time.Second) {
				t.Error("not taken from a node that is gone")
			}
		})
	}
}

// newTestRollout returns a rollout of pool "pool" whose Lease was seen and is
// absent. It is not watched.
func newTestRollout(
	t *testing.T, server http.Handler, uptime *time.Duration,
) *rolloutController {
	return &rolloutController{
		api:      newTestAPI(t, server),
		uptime:   func() time.Duration { return *uptime },
		observed: &observedLease{},
		name:     "pool",
		seen:     true,
	}
}

// newTestAPI returns an API server with that handler.
func newTestAPI(t *testing.T, server http.Handler) *api {
	t.Helper()
	listening := httptest.NewServer(server)
	t.Cleanup(listening.Close)

	a, err := newAPI(&rest.Config{Host: listening.URL})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.close)
	return a
}
