package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A role that an administrator removed does not come back because a thousand
// nodes ask for it every second.
func TestForbiddenRequestsAreRetriedWithBackoff(t *testing.T) {
	server := &leaseServer{forbids: true}
	uptime := time.Duration(0)
	s := newRolloutSession(t, server, &uptime)
	s.Now = func() time.Time { return noon.Add(uptime) }
	s.Part = func() float64 { return 0.5 }
	s.Log = zap.NewNop()
	s.pending = nil
	s.node = &core.Node{ObjectMeta: meta.ObjectMeta{Name: "node-1"}}

	// asked runs one step a second and returns the seconds that had a request.
	asked := func(seconds int) (at []int) {
		for i := range seconds {
			before := server.requests
			s.step(t.Context())
			if server.requests > before {
				at = append(at, i)
			}
			uptime += time.Second
		}
		return at
	}
	if diff := cmp.Diff([]int{0, 1, 3, 7, 15, 31, 63, 103, 143, 183}, asked(200)); diff != "" {
		t.Errorf("while it is forbidden (-want +got):\n%s", diff)
	}

	if problem := s.Link().Problem; problem == "" {
		t.Error("the problem is not shown while nothing is asked for")
	}

	server.forbids = false
	asked(40)

	if problem := s.Link().Problem; server.lease == nil || problem != "" {
		t.Errorf("once it is allowed: Lease %v, problem %q", server.lease, problem)
	}

	server.forbids = true
	for len(asked(1)) == 0 {
	}

	if diff := cmp.Diff([]int{0, 2, 6}, asked(10)); diff != "" {
		t.Errorf("once it is forbidden again (-want +got):\n%s", diff)
	}
}

func TestPauseBetweenJoinAttempts(t *testing.T) {
	group := schema.GroupResource{Resource: "certificatesigningrequests"}
	forbidden := apierrors.NewForbidden(group, "a", nil)
	for _, tt := range []struct {
		name    string
		err     error
		refused bool
		want    []time.Duration
	}{
		{
			"an API server that does not answer",
			errors.New("connection refused"),
			false,
			[]time.Duration{1, 1, 1},
		},
		{"a forbidden request", forbidden, false, []time.Duration{1, 2, 4, 8, 16, 32, 40, 40}},
		{
			"an unknown token",
			apierrors.NewUnauthorized("unknown"),
			false,
			[]time.Duration{1, 2, 4, 8, 16, 32, 40, 40},
		},
		{
			"a conflict",
			apierrors.NewConflict(group, "a", nil),
			false,
			[]time.Duration{1, 1},
		},
		{"a request that was denied", ErrDenied, false, []time.Duration{30, 30}},
		{"a refused certificate", nil, true, []time.Duration{1, 2, 4, 8, 16, 30, 30}},
		{"a session that ended", nil, false, []time.Duration{0, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			hold := time.Duration(0)
			for i, want := range tt.want {
				hold = nextHold(hold, tt.err, tt.refused)
				if hold != want*time.Second {
					t.Errorf("pause %d is %s, want %d s", i, hold, want)
				}
			}
		})
	}
}

func TestNewTokenIsTriedAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name, token string
		waits       time.Duration
		want        bool
	}{
		{"the same", "old", 40 * time.Second, false},
		{"another", "new", 10 * time.Second, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k, dir := newTestStore(t)
			place(t, dir, tokenName, "old")
			c := New(Config{}, Env{Root: k.dir.Root(), Now: time.Now})
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				time.AfterFunc(10*time.Second-time.Millisecond, func() {
					if err := os.WriteFile(filepath.Join(dir, tokenName), []byte(tt.token),
						0o600); err != nil {
						t.Error(err)
					}
				})
				if got := c.pauseFor(t.Context(), 40*time.Second, "old"); got != tt.want {
					t.Errorf("another token: %v", got)
				}
				if waited := time.Since(begin); waited != tt.waits {
					t.Errorf("waited %s", waited)
				}
			})
		})
	}
}
