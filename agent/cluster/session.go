package cluster

import (
	"cmp"
	"context"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/cluster/reach"
	"github.com/loam-os/loam/agent/status"
)

// stepInterval is how often a session runs a step if nothing happens.
const stepInterval = 10 * time.Second

// requestTimeout is how long a request may take.
const requestTimeout = 10 * time.Second

// A controller does one thing for the node or its Node. It decides on a copy of
// the world, by a function without I/O, and then does what it has decided.
type controller interface {
	// step does what is due in w, and changes in w what that has changed in the
	// world. w outlives the step: jobs change it when they are done. An error
	// is an error of a request; the session retries the step.
	step(ctx context.Context, w *world) (outcome, error)
}

// outcome is what a step of a controller asks of its session.
type outcome struct {
	// wake is when the next step is due at the latest; zero for any time.
	wake time.Time

	// blocked is what the report of the Node waits for, "" for nothing.
	blocked string
}

// memory outlives a session, so a new certificate loses no state. It is a
// variable of Run, and no other goroutine touches it: the others post to Run's
// goroutine. Each controller gets its own part and the world.
type memory struct {
	world     world
	flaps     flaps
	lease     nodeLease
	endpoint  endpoint
	updates   updates
	turns     observedLease
	refusals  refusalRecord
	addresses addresses
}

// newMemory returns the memory of a node that has not reached its cluster yet.
func newMemory(config Config, env Env) *memory {
	return &memory{
		world: world{
			config: config,
			bootID: env.BootID,
			secret: loadSecretName(env.Root, config.SecretName),
			turn:   loadTurn(env.Root, env.Log),
		},
		updates: loadUpdates(env.Root, env.Log),
	}
}

// session is the connection with one certificate. All of it belongs to the
// goroutine of Run and ends with the session.
type session struct {
	env    Env
	link   *link
	inbox  inbox
	memory *memory
	events eventWriter
	parts  []part

	// wake is when to run the next step at the latest.
	wake time.Time

	// unrecorded is why the last step could not write a record, nil if it could.
	// The API server has no part in it.
	unrecorded error

	// refused says that the API server does not accept the certificate, failing
	// that the last step had errors.
	refused, failing bool
}

// part is a controller with the backoff of its requests.
type part struct {
	controller controller
	rejection  rejection
}

// connection is the API server as one session reaches it, and what runs in the
// background for it.
type connection struct {
	api     *api
	who     credentials.Credentials
	watcher *watcher
	events  eventWriter

	// session runs jobs that end with the session, lasting those that may
	// outlive it.
	session, lasting jobs
}

// runSession talks to the cluster with the credentials who until ctx ends or
// there are newer ones, and reports whether they were refused. background has
// the goroutines that may outlive it.
func (c *Cluster) runSession(
	ctx context.Context, m *memory, who credentials.Credentials, background *sync.WaitGroup,
) (refused bool) {
	a, err := newAPI(m.world.config.target().REST(who, ""))
	if err != nil {
		c.reportUnreachable(m, reach.Untried(err))
		pause(ctx, retryStep)
		return false
	}
	defer a.close()

	var group sync.WaitGroup
	defer group.Wait()
	life := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer c.secrets.stopAll()

	m.world.beginSession()
	c.link.identify("the node's certificate")
	c.link.edit(func(l *status.Cluster) { l.Expires = who.NotAfter })

	s := c.newSession(m, connection{
		api:     a,
		who:     who,
		events:  eventWriter{api: a, group: &group, log: c.Env.Log},
		session: jobs{ctx: ctx, group: &group, post: c.inbox.post},
		lasting: jobs{ctx: life, group: background, post: c.inbox.post},
	})

	for !s.refused && !m.world.isOver() && ctx.Err() == nil {
		s.handleEvent(ctx)
	}

	return s.refused
}

// newSession returns a session over a connection, which gets its watcher here.
// The watches have begun.
func (c *Cluster) newSession(m *memory, conn connection) *session {
	s := &session{
		env:    c.Env,
		link:   c.link,
		inbox:  c.inbox,
		memory: m,
		events: conn.events,
	}

	conn.watcher = &watcher{
		ctx:      conn.session.ctx,
		group:    conn.session.group,
		inbox:    c.inbox,
		link:     c.link,
		restarts: &c.watches,
		result:   s.handleResult,
	}

	for _, controller := range c.controllers(m, conn) {
		s.parts = append(s.parts, part{controller: controller})
	}

	watchSecret(conn, m, c.Env)
	node := &nodeWatch{
		conn:   conn,
		memory: m,
		env:    c.Env,
		inbox:  c.inbox,
	}
	node.watch("")
	return s
}

// reportUnreachable records that no session can begin, and goes back to the API
// server before, if there was another.
func (c *Cluster) reportUnreachable(m *memory, err error) {
	c.link.record("connect", err, c.Env.Now())
	m.endpoint.revert(&m.world, c.Env.Now(), c.Env.Log)
	c.link.edit(func(l *status.Cluster) { *l = m.world.link(*l) })
}

// handleEvent waits for an event and runs a step.
func (s *session) handleEvent(ctx context.Context) {
	w := &s.memory.world
	timer := time.NewTimer(max(0, s.wake.Sub(s.env.Now())))
	defer timer.Stop()

	events := s.inbox.events
	if w.node == nil {
		events = nil // They wait for the Node that they are about.
	}

	select {
	case <-ctx.Done():
		return
	case f := <-s.inbox.posted:
		w.tick(s.env.Now(), s.env.Uptime()) // The last step may be stepInterval ago.
		f()
	case w.status = <-s.inbox.reports:
	case e := <-events:
		s.events.write(w.node, s.env.Now(), e)
	case <-s.inbox.wake:
	case <-timer.C:
	}

	select {
	case w.status = <-s.inbox.reports: // Decide by the newest status.
	default:
	}

	s.step(ctx)
}

// step runs a step of each controller. None waits for another, and one whose
// requests the API server rejects for good backs off.
func (s *session) step(ctx context.Context) {
	s.wake = s.env.Now().Add(stepInterval)
	blocked := ""
	failed := false
	s.unrecorded = nil

	for i := range s.parts {
		out, ok := s.stepPart(ctx, &s.parts[i])
		s.wakeAt(out.wake)
		failed = failed || !ok
		if blocked == "" {
			blocked = out.blocked
		}
	}

	if !failed {
		s.link.setProblem("write", reach.Problem{}) // Perhaps of a session before this one.
	}
	if s.failing && !failed {
		s.link.record("write", nil, s.env.Now())
	}
	s.failing = failed
	s.link.setProblem("record", s.link.explain(s.unrecorded, s.env.Now()))

	s.link.edit(func(l *status.Cluster) {
		*l = s.memory.world.link(*l)
		l.Waits = blocked
	})
}

// stepPart runs a step of one controller, unless its requests wait, and reports
// whether none of them had an error.
func (s *session) stepPart(ctx context.Context, p *part) (out outcome, ok bool) {
	w := &s.memory.world
	w.tick(s.env.Now(), s.env.Uptime())

	if rest := p.rejection.until - w.uptime; rest > 0 {
		return outcome{wake: w.now.Add(rest)}, false
	}

	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	out, err := p.controller.step(ctx, w)

	uptime := s.env.Uptime()
	p.rejection = p.rejection.next(err, uptime, s.env.about)
	if err == nil {
		return out, true
	}

	if reach.IsUntried(err) {
		s.unrecorded = cmp.Or(s.unrecorded, err)
		s.wakeAt(s.env.Now().Add(s.env.about(retryStep)))
		return out, true
	}

	s.handleResult("write", err)
	rest := max(s.env.about(retryStep), p.rejection.until-uptime)
	s.wakeAt(s.env.Now().Add(rest))
	return out, false
}

// wakeAt runs the next step no later than at, unless at is zero.
func (s *session) wakeAt(at time.Time) {
	if !at.IsZero() && at.Before(s.wake) {
		s.wake = at
	}
}

// handleResult records the result of a request under key.
func (s *session) handleResult(key string, err error) {
	s.refused = s.refused || apierrors.IsUnauthorized(err)
	s.link.record(key, err, s.env.Now())
	if err == nil && !s.memory.world.ending {
		s.memory.endpoint.answered()
	}
}

// jobs runs functions in the background until ctx ends.
type jobs struct {
	ctx   context.Context
	group *sync.WaitGroup
	post  func(ctx context.Context, f func())
}

// run runs job. Then the goroutine of Run calls done with its error.
func (j jobs) run(job func(ctx context.Context) error, done func(error)) {
	j.group.Go(func() {
		err := job(j.ctx)
		j.post(j.ctx, func() { done(err) })
	})
}
