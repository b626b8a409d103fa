package cluster

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
)

// newTestSession returns a session without controllers, in newWorld. Its wall
// clock is at noon at uptime 0, and it has no jitter.
func newTestSession(t *testing.T, uptime *time.Duration) *session {
	return &session{
		env: Env{
			Now:    func() time.Time { return noon.Add(*uptime) },
			Uptime: func() time.Duration { return *uptime },
			Part:   func() float64 { return 0.5 },
			Log:    zap.NewNop(),
		},
		link:   newLink(zap.NewNop(), status.Cluster{}),
		inbox:  newInbox(),
		memory: &memory{world: newWorld()},
	}
}

// scripted is a controller with a fixed outcome.
type scripted struct {
	outcome outcome
	err     error
	do      func(w *world)
}

func (c scripted) step(_ context.Context, w *world) (outcome, error) {
	if c.do != nil {
		c.do(w)
	}
	return c.outcome, c.err
}

// What a session hears of has the time at which it hears of it, not that of its last
// step: the kubelet of a deleted Node is restarted after a pause.
func TestADeletedNodeIsGoneSinceNow(t *testing.T) {
	uptime := time.Duration(0)
	s := newTestSession(t, &uptime)
	s.step(t.Context())
	uptime = stepInterval - time.Second

	var group sync.WaitGroup
	group.Go(func() {
		s.inbox.post(t.Context(), func() { s.memory.world.setNode(nil) })
	})
	s.handleEvent(t.Context())
	group.Wait()

	a := s.memory.world.absent
	if !a.since.Equal(noon.Add(uptime)) || a.due() != uptime+absenceGrace {
		t.Errorf("gone since %s, the kubelet is restarted at %s, want %s and %s",
			a.since, a.due(), noon.Add(uptime), uptime+absenceGrace)
	}
}

func TestStepRunsEachController(t *testing.T) {
	uptime := time.Duration(0)
	s := newTestSession(t, &uptime)
	seen := ""
	s.parts = []part{
		{controller: scripted{outcome: outcome{wake: noon.Add(3 * time.Second)}}},
		{controller: scripted{err: errors.New("no answer")}},
		{controller: scripted{
			outcome: outcome{blocked: "the first", wake: noon.Add(2 * time.Second)},
			do:      func(w *world) { w.ready = "new" },
		}},
		{controller: scripted{
			outcome: outcome{blocked: "the second"},
			do:      func(w *world) { seen = w.ready },
		}},
	}

	s.step(t.Context())
	if want := noon.Add(retryStep); !s.wake.Equal(want) {
		t.Errorf("the next step is at %s, want %s", s.wake, want)
	}
	if seen != "new" {
		t.Error("a controller does not see what the one before it did")
	}

	link := s.link.get()
	if link.Waits != "the first" || link.Problem != "no answer" || link.Node != "node-1" {
		t.Errorf("link %+v", link)
	}

	s.parts = nil
	s.step(t.Context())
	if want := noon.Add(stepInterval); !s.wake.Equal(want) {
		t.Errorf("without a request the next step is at %s, want %s", s.wake, want)
	}
}

// A role that an administrator removed does not come back because a thousand
// nodes ask for it every second.
func TestForbiddenRequestsAreRetriedWithBackoff(t *testing.T) {
	server := &leaseServer{forbids: true}
	uptime := time.Duration(0)
	s := newTestSession(t, &uptime)
	s.parts = []part{{controller: &leaseController{api: newTestAPI(t, server), held: &nodeLease{}}}}

	// asked runs one step a second and returns the seconds with a request.
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

	if problem := s.link.get().Problem; problem == "" {
		t.Error("the problem is not shown while nothing is asked for")
	}

	server.forbids = false
	asked(40)

	if problem := s.link.get().Problem; server.lease == nil || problem != "" {
		t.Errorf("once it is allowed: Lease %v, problem %q", server.lease, problem)
	}

	server.forbids = true
	for len(asked(1)) == 0 {
	}

	if diff := cmp.Diff([]int{0, 2, 6}, asked(10)); diff != "" {
		t.Errorf("once it is forbidden again (-want +got):\n%s", diff)
	}
}

// The session in which a request was rejected may end before the API server
// accepts the next one.
func TestNextSessionClearsTheProblem(t *testing.T) {
	server := &leaseServer{forbids: true}
	uptime := time.Duration(0)
	before := newTestSession(t, &uptime)
	api := newTestAPI(t, server)
	before.parts = []part{{controller: &leaseController{api: api, held: &nodeLease{}}}}
	before.step(t.Context())
	if before.link.get().Problem == "" {
		t.Fatal("a rejected request is no problem")
	}

	server.forbids = false
	next := newTestSession(t, &uptime)
	next.link = before.link
	next.parts = []part{{controller: &leaseController{api: api, held: &nodeLease{}}}}
	next.step(t.Context())
	if problem := next.link.get().Problem; problem != "" {
		t.Errorf("the next session shows %q", problem)
	}
}
