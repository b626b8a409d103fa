package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/storage"
	"github.com/loam-os/loam/agent/unit"
)

// recorder is a cluster that records what is reported to it.
type recorder struct {
	events []string
	last   status.Status
}

func (r *recorder) Report(s status.Status)                  { r.last = s }
func (r *recorder) Prepare(context.Context, config.Desired) {}
func (r *recorder) Link() status.Cluster                    { return status.Cluster{} }
func (r *recorder) Linked() <-chan struct{}                 { return nil }
func (r *recorder) WatchRestarts() int                      { return 0 }
func (r *recorder) Drains() (drained, postponed int)        { return 0, 0 }
func (r *recorder) Turns() (done, failed, postponed int)    { return 0, 0, 0 }

func (r *recorder) Event(_ bool, reason, message string) {
	r.events = append(r.events, reason+": "+message)
}

// steady and limit are as on a node.
const (
	steady = 10 * time.Second
	limit  = 3 * time.Minute
)

// fakeNode is a node in memory: engine, systemd and source in one. Its text is
// what the source says, "" for no document.
//
// Its methods, which the loop calls, hold mu. A test reads and writes the
// fields only while the loop waits for an event: before it runs, and after
// pass.
type fakeNode struct {
	mu sync.Mutex

	current generation.Manifest
	applied []string
	state   unit.State
	started []string
	// restarted are units that Restart was asked for.
	restarted []string
	text      string
	source    chan struct{}
	units     chan string
	shown     []status.Status
	news      []status.Phase
	// told has the statuses of shown that were news.
	told []status.Status
	// resume and fail are what Resume and Apply return; resumed counts.
	resume, fail error
	resumed      int
	// refuse is what Apply returns without having changed anything.
	refuse error
	// pending and verdict are what Pending and Judge return; good is where a
	// bad verdict leads.
	pending apply.Pending
	verdict health.Verdict
	watched bool
	good    generation.Manifest
	// reapply is where Reapply leads.
	reapply generation.Manifest
	// alive is when the watchdog heard of the loop.
	alive     []time.Duration
	concluded []health.Word
	// jobs are what the engine asks of systemd; nil for no record.
	jobs *Jobs
	// owed is what Owed and Retry return, retried when Retry was called.
	owed    []string
	retried []time.Duration
	began   time.Time
	// cluster is told how the node stands; nil if none.
	cluster Cluster
	held    map[string]apply.Held
	// broken is what Repair returns next, looked what it was asked for.
	broken, looked []string
	showed         int
	requests       Requests
	drift          chan []string
	disks          chan []status.Disk
	unwatched      error
	guarded        []string
	unreachable    error
	// notes are the notes of each document, by its text.
	notes map[string][]config.Note
	// hold and holdRepair, if set, keep Apply and Repair waiting until closed.
	hold, holdRepair chan struct{}
	tidied           int
	// did lists what the loop did, in order: "read", "apply", "repair /etc/a".
	did []string
	// restless has the source change whenever it is read.
	restless bool
	queries  Queries
	sample   metrics.Sample
	// usage is what Storage returns, unwritable what Publish does.
	usage      []storage.Usage
	unwritable error
	// limits is what Limits returns.
	limits []limits.Usage
	// takenBack is what TakenBack returns of each generation.
	takenBack map[string]*status.TakenBack
	// doubt is what DoubtClock returns.
	doubt *status.WrongClock
}

func newFakeNode() *fakeNode {
	return &fakeNode{
		held:   map[string]apply.Held{},
		source: make(chan struct{}),
		units:  make(chan string),
		state:  unit.State{Name: "a.service", Active: "active", Sub: "running"},
	}
}

func (w *fakeNode) Resume(context.Context) (apply.Resumed, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.resumed++
	return apply.Resumed{}, w.resume
}

func (w *fakeNode) Current() (generation.Manifest, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.current, w.current.Digest != "", nil
}

func (w *fakeNode) Apply(_ context.Context, r apply.Request) (generation.Manifest, error) {
	d, source := r.Desired, r.Source
	hold, restless := w.note("apply")
	if restless {
		time.Sleep(time.Millisecond) // The bubble's clock goes on only while all goroutines wait.
	}
	if hold != nil {
		<-hold
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	if w.refuse != nil {
		return generation.Manifest{}, w.refuse
	}
	w.applied = append(w.applied, d.Digest())
	w.good = w.current
	if w.watched {
		w.pending = apply.Pending{
			Journal: generation.Journal{To: "x", Good: w.good.Name()},
			Watched: true,
		}
		if r.Try > 0 {
			w.pending.Try = &generation.Try{Until: time.Now().Add(r.Try)}
		}
	}
	w.current = generation.Manifest{
		Number:  len(w.applied),
		Digest:  d.Digest(),
		Source:  source,
		Units:   []generation.Unit{{Name: "a.service", Enabled: true}},
		Entries: []generation.Entry{{Path: "/etc/a", Kind: generation.KindLink}},
	}
	return w.current, w.fail
}

// note records what the loop did. It returns what keeps Apply waiting.
func (w *fakeNode) note(did string) (hold chan struct{}, restless bool) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.did = append(w.did, did)
	return w.hold, w.restless
}

func (w *fakeNode) Pending() (apply.Pending, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.pending, w.pending.To != "", nil
}

func (w *fakeNode) Judge(context.Context) (health.Verdict, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.verdict, nil
}

func (w *fakeNode) Conclude(_ context.Context, v health.Verdict) (generation.Manifest, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.concluded = append(w.concluded, v.Word)
	w.pending, w.verdict = apply.Pending{}, health.Verdict{}
	if v.Word == health.Bad {
		w.held[w.current.Digest] = apply.Held{
			Digest:     w.current.Digest[:12],
			Generation: w.current.Name(),
			Why:        v.Reason,
			Unit:       v.Unit,
		}
		w.current = w.good
	}
	return w.current, nil
}

func (w *fakeNode) Owed() ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.owed, nil
}

func (w *fakeNode) Retry(context.Context) ([]string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.retried = append(w.retried, time.Since(w.began))
	var err error
	if len(w.owed) > 0 {
		err = errors.New("start a.service: failed")
	}
	return w.owed, err
}

func (w *fakeNode) Confirm() (generation.Manifest, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.pending.Try = nil
	return w.current, nil
}

func (w *fakeNode) Rollback(context.Context, string) (generation.Manifest, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.rollback()
}

// Reapply goes to a generation that a bad verdict takes back again.
func (w *fakeNode) Reapply(context.Context, string) (generation.Manifest, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.good, w.current = w.current, w.reapply
	w.pending = apply.Pending{
		Journal: generation.Journal{To: w.current.Name(), Good: w.good.Name()},
		Watched: true,
	}
	return w.current, nil
}

func (w *fakeNode) rollback() (generation.Manifest, error) {
	w.held[w.current.Digest] = apply.Held{
		Digest:   w.current.Digest[:12],
		Why:      "rolled back",
		Operator: true,
	}
	w.current = w.good
	return w.current, nil
}

func (w *fakeNode) Held(digest string) (apply.Held, bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	h, ok := w.held[digest]
	return h, ok, nil
}

func (w *fakeNode) Hold(h apply.Held) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.held[h.Digest] = h
	return nil
}

func (w *fakeNode) Release(digest string) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	delete(w.held, digest)
	return nil
}

func (w *fakeNode) Set(_ string, paths []string) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.guarded = paths
	return nil
}

func (w *fakeNode) Events() <-chan []string { return w.drift }

func (w *fakeNode) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.unwatched
}

func (w *fakeNode) Repair(
	_ context.Context,
	paths []string,
	_ map[string]config.Content,
) ([]string, error) {
	w.mu.Lock()
	hold := w.holdRepair
	w.mu.Unlock()
	if hold != nil {
		<-hold
	}

	w.mu.Lock()
	defer w.mu.Unlock()

	w.looked = append(w.looked, paths...)
	w.did = append(w.did, "repair "+strings.Join(paths, " "))
	repaired := w.broken
	w.broken = nil
	return repaired, nil
}

func (w *fakeNode) Tidy() error {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.tidied++
	return nil
}

func (w *fakeNode) Verify(
	_ context.Context, _ map[string]config.Content, _ bool, report func(done, all int64),
) (apply.Verified, error) {
	if report != nil {
		report(1, 1)
	}
	return apply.Verified{Checked: 1}, nil
}

func (w *fakeNode) Start(_ context.Context, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.started = append(w.started, name)
	return nil
}

func (w *fakeNode) Restart(_ context.Context, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.restarted = append(w.restarted, name)
	return nil
}

func (w *fakeNode) Show(_ context.Context, names []string) ([]unit.State, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.showed++
	if len(names) == 0 {
		return nil, nil
	}
	return []unit.State{w.state}, nil
}

func (w *fakeNode) Changes(context.Context) (<-chan string, error) { return w.units, nil }

func (w *fakeNode) Watch(context.Context) (<-chan struct{}, error) { return w.source, nil }

func (w *fakeNode) Read(context.Context) (source.Document, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.did = append(w.did, "read")
	if w.restless {
		w.text += "."
		select {
		case w.source <- struct{}{}:
		default: // The loop has not taken the last yet.
		}
	}
	if w.text == "" {
		return source.Document{Version: "gone"}, fmt.Errorf("read: %w", source.ErrAbsent)
	}
	return source.Document{Name: "test.yaml", Text: []byte(w.text)}, nil
}

// Decode takes any text but "bad" and "fetching" for a configuration with one file.
func (w *fakeNode) Decode(_ context.Context, d source.Document) (config.Desired, error) {
	w.mu.Lock()
	defer w.mu.Unlock()

	if string(d.Text) == "bad" {
		return config.Desired{}, document.Errors{{
			File:    d.Name,
			Line:    3,
			Path:    "spec",
			Problem: "bad",
			Hint:    "better",
		}}
	}
	if string(d.Text) == "fetching" {
		return config.Desired{}, fmt.Errorf("version 2 is %w", source.ErrFetching)
	}
	desired := config.Desired{
		Files: []config.File{{Path: "/etc/a", Content: config.Inline(d.Text)}},
		Notes: w.notes[string(d.Text)],
	}
	if string(d.Text) == "probed" {
		desired.Files = append(desired.Files, config.File{
			Path:    "/etc/hosts.toml",
			Content: config.Text("mirror"),
		})
		desired.Probes = []config.Probe{{Path: "/etc/hosts.toml", URLs: []string{"https://mirror"}}}
	}
	return desired, nil
}

func (w *fakeNode) agent() *Loop {
	w.began = time.Now()

	return &Loop{
		Engine:      w,
		Units:       w,
		Jobs:        w.jobs,
		Source:      w,
		Decoder:     w,
		Host:        w,
		Drift:       w,
		Disks:       w.disks,
		Cluster:     w.cluster,
		Requests:    w.requests,
		Queries:     w.queries,
		DebugShells: []string{"ttyS1"},
		Steady:      steady,
		Limit:       limit,
		Log:         zap.NewNop(),
	}
}

func (*fakeNode) Ready() error { return nil }

func (w *fakeNode) Alive() error {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.alive = append(w.alive, time.Since(w.began))
	return nil
}

// Uptime says that the kernel started a second before the agent.
func (w *fakeNode) Uptime() time.Duration { return time.Since(w.began) + time.Second }

func (*fakeNode) Proven(context.Context) {}

func (*fakeNode) FreeMemory() {}

func (*fakeNode) End(error) {}

func (w *fakeNode) Reach(context.Context, config.Probe) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.unreachable
}

// Storage returns what usage says.
func (w *fakeNode) Storage() []storage.Usage {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.usage
}

// Limits returns what limits says.
func (w *fakeNode) Limits([]status.Limit) []limits.Usage {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.limits
}

// TakenBack returns what takenBack says.
func (w *fakeNode) TakenBack(generation string) *status.TakenBack {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.takenBack[generation]
}

// Threads returns what limits says of threads.
func (w *fakeNode) Threads() limits.Usage {
	for _, u := range w.Limits(nil) {
		if u.Name == limits.Threads {
			return u
		}
	}
	return limits.Usage{Name: limits.Threads}
}

// DoubtClock returns what doubt says.
func (w *fakeNode) DoubtClock() *status.WrongClock {
	w.mu.Lock()
	defer w.mu.Unlock()

	return w.doubt
}

func (w *fakeNode) Publish(s status.Status, news bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()

	w.shown = append(w.shown, s)
	if news {
		w.news, w.told = append(w.news, s.Phase), append(w.told, s)
	}
	return w.unwritable
}

// pass lets d pass on the bubble's clock, and the loop do all that it can.
func (w *fakeNode) pass(d time.Duration) {
	w.order()
	time.Sleep(d)
	synctest.Wait()
}

// order orders what the test has written before what the loop reads after.
func (w *fakeNode) order() {
	w.mu.Lock()
	defer w.mu.Unlock()
}

// run runs an agent in a bubble; step is what happens to the node, with time
// to wait after each call of its argument.
func run(t *testing.T, w *fakeNode, step func(wait func())) { t.Helper(); runEngine(t, w, w, step) }

// runEngine is run with another engine.
func runEngine(t *testing.T, w *fakeNode, engine Engine, step func(wait func())) {
	t.Helper()

	synctest.Test(t, func(t *testing.T) {
		w.source, w.units = make(chan struct{}, 1), make(chan string)
		w.requests, w.drift, w.queries = make(Requests), make(chan []string), make(Queries)
		w.disks = make(chan []status.Disk)
		if w.jobs != nil {
			w.jobs.Changed = make(chan struct{}, 1)
		}
		ctx, cancel := context.WithCancel(t.Context())
		a, done := w.agent(), make(chan error)
		a.Engine = engine
		go func() { done <- a.Run(ctx) }()
		wait := func() { w.pass(time.Second) }
		wait()
		step(wait)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	})
}

func (w *fakeNode) last() status.Status { return w.shown[len(w.shown)-1] }

func TestFirstBootApplies(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(func()) {})
	if s := w.last(); s.Phase != status.Applied || s.Generation != w.current.Name() ||
		time.Duration(s.AppliedAt) != time.Second {
		t.Errorf("status: %+v", s)
	}

	// The debug shell is news too, whenever it opens.
	if len(w.news) > 3 || w.news[0] != status.Applying || w.news[len(w.news)-1] != status.Applied {
		t.Errorf("news: %v", w.news)
	}
	if !slices.Equal(w.started, []string{"loam-debug-shell@ttyS1.service"}) ||
		!slices.Equal(w.last().DebugShells, []string{"ttyS1"}) {
		t.Errorf("started %v, shows %v", w.started, w.last().DebugShells)
	}
}

// TestTheWatchdogHearsOfALoopThatTakesEvents and of no other loop: systemd ends
// an agent that is silent for three minutes.
func TestTheWatchdogHearsOfALoopThatTakesEvents(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(wait func()) {
		w.pass(10 * time.Minute)
		wait()
		if len(w.alive) != 10 || w.alive[9] != 10*time.Minute {
			t.Errorf("alive at %v", w.alive)
		}

		// A query whose answer is never received blocks the loop.
		answer := make(chan metrics.Sample)
		w.queries <- answer
		w.pass(10 * time.Minute)
		if len(w.alive) != 10 {
			t.Errorf("alive at %v, while the loop is stuck", w.alive)
		}
		<-answer
	})
}

func TestSameConfigurationIsNotAppliedAgain(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(wait func()) {
		showed, shown := w.showed, len(w.shown)
		w.source <- struct{}{}
		wait()
		if w.showed != showed || len(w.shown) != shown {
			t.Error("systemd was asked, or a status published, although nothing changed")
		}
	})
	run(t, w, func(func()) {})
	if len(w.applied) != 1 {
		t.Errorf("applied %d times", len(w.applied))
	}
}

func TestManyChangesAreOneApply(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(wait func()) {
		w.text = "two"
		for range 5 {
			w.source <- struct{}{}
		}
		wait()
	})
	if len(w.applied) != 2 {
		t.Errorf("applied %d times", len(w.applied))
	}
}

// TestASourceThatCanNoLongerBeWatchedIsReadOnceMore, as its end may have hidden
// a change, and the operator is told.
func TestASourceThatCanNoLongerBeWatchedIsReadOnceMore(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(wait func()) {
		w.text = "two"
		close(w.source)
		wait()
	})
	if s := w.last(); len(w.applied) != 2 ||
		!slices.Contains(s.Warnings, "watch the source: no more events") {
		t.Errorf("applied %d times, warnings %q", len(w.applied), s.Warnings)
	}
}

func TestBadConfigurationChangesNothing(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(wait func()) {
		before := w.current.Name()
		w.text = "bad"
		w.source <- struct{}{}
		wait()
		s := w.last()
		if s.Phase != status.Failed || s.Error == nil || s.Error.Path != "spec" ||
			s.Error.Hint != "better" || s.Generation != before {
			t.Errorf("status: %+v", s)
		}

		w.text = "one"
		w.source <- struct{}{}
		wait()
		if s := w.last(); s.Phase != status.Applied || s.Error != nil {
			t.Errorf("status after the mistake was undone: %+v", s)
		}
	})
	if len(w.applied) != 1 {
		t.Errorf("applied %d times", len(w.applied))
	}
}

func TestNothingIsAppliedWhileTheNodeChanges(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(wait func()) {
		w.hold, w.text = make(chan struct{}), "two"
		w.source <- struct{}{}
		wait()
		for _, state := range []string{"active", "failed", "active"} {
			w.state.Active = state
			w.units <- "a.service"
			wait()
			if s := w.last(); s.Phase != status.Applying || s.AppliedAt != 0 {
				t.Errorf("while it changes, its unit %s: %s, applied at %s",
					state, s.Phase, s.AppliedAt)
			}
		}

		close(w.hold)
		wait()
		if s := w.last(); s.Phase != status.Applied || s.Generation != w.current.Name() {
			t.Errorf("once it has: %s, generation %s", s.Phase, s.Generation)
		}
	})
}

// TestSourceWithoutADocumentIsSaid is weak point 10c of osc-contract, part 4:
// no error, and no silence either.
func TestSourceWithoutADocumentIsSaid(t *testing.T) {
	w := newFakeNode()
	missing := func(phase status.Phase) {
		t.Helper()
		if s := w.last(); s.Phase != phase || s.Error != nil || s.Missing != "read: no document" {
			t.Errorf("without a document: %+v, error %+v", s, s.Error)
		}
	}

	run(t, w, func(wait func()) {
		missing(status.Waiting)
		w.says("one", wait)
		if s := w.last(); s.Phase != status.Applied || s.Missing != "" {
			t.Errorf("with one: %+v", s)
		}
		w.says("", wait)
		missing(status.Applied)
	})

	run(t, w, func(func()) { missing(status.Applied) })
	if len(w.applied) != 1 {
		t.Errorf("applied %d times", len(w.applied))
	}
}

// TestFetchingIsNoFault: the node is as before, and asks again by itself.
func TestFetchingIsNoFault(t *testing.T) {
	w := newFakeNode()
	w.text = "fetching"
	run(t, w, func(wait func()) {
		if s := w.last(); s.Phase != status.Waiting || s.Error != nil || s.Missing != "" {
			t.Errorf("at first: %+v, error %+v", s, s.Error)
		}
		w.text = "one"
		w.pass(retryDelay)
		if s := w.last(); s.Phase != status.Applied {
			t.Errorf("with what it needs: %+v", s)
		}

		w.says("bad", wait)
		news := len(w.told)
		w.says("fetching", wait)
		w.pass(time.Minute)
		if s := w.last(); s.Phase != status.Applied || s.Error != nil || s.Refused {
			t.Errorf("with another document: %+v, error %+v", s, s.Error)
		}
		if len(w.told) != news+1 { // The end of the fault.
			t.Errorf("%d times news", len(w.told)-news)
		}

		if err := w.requests.RestartUnits(context.Background(), []string{"a.service"}); err != nil {
			t.Error(err)
		}
		w.broken = []string{"/etc/a"}
		w.drift <- []string{"/etc/a"}
		wait()
		if s := w.last(); s.Drift.Repaired != 1 {
			t.Errorf("drift: %+v", s.Drift)
		}

		w.says("two", wait)
		if !w.runs("two") {
			t.Error("in the end the node runs something else")
		}
	})
}

func TestAppliedWaitsForUnits(t *testing.T) {
	w := newFakeNode()
	w.text, w.watched = "one", true
	w.verdict = health.Verdict{Word: health.Wait, Next: time.Hour}
	w.state.Active, w.state.Sub = "activating", "start"
	run(t, w, func(wait func()) {
		if s := w.last(); s.Phase != status.Applying || s.AppliedAt != 0 {
			t.Errorf("while a unit starts: %+v", s)
		}

		shown := len(w.shown)
		w.units <- "other.service"
		wait()
		if len(w.shown) != shown {
			t.Error("a unit that is not in the configuration was news")
		}

		w.state.Active, w.state.Sub = "active", "running"
		w.units <- "a.service"
		wait()
		if s := w.last(); s.Phase != status.Applied || s.AppliedAt == 0 {
			t.Errorf("once it is up: %+v", s)
		}

		w.state.Active, w.state.Result, w.state.ExitCode = "failed", "exit-code", 3
		w.units <- "a.service"
		wait()
		if s := w.last(); s.Phase != status.Failed ||
			s.Error.Problem != "unit a.service failed: exit-code, exit code 3" {
			t.Errorf("once it has failed: %+v", s)
		}
	})
}

func TestAgentEndsWithoutSystemd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newFakeNode()
		done := make(chan error)
		go func() { done <- w.agent().Run(t.Context()) }()
		synctest.Wait()
		close(w.units)
		if err := <-done; !errors.Is(err, ErrDisconnected) {
			t.Errorf("it ended with %v", err)
		}
	})
}

func TestSlowUnitIsNoFailureOnceItIsUp(t *testing.T) {
	w := newFakeNode()
	w.text, w.watched = "one", true
	w.verdict = health.Verdict{Word: health.Wait, Next: time.Hour}
	w.fail = fmt.Errorf("start a.service: waiting for the job: %w", context.DeadlineExceeded)
	w.state.Active, w.state.Sub = "activating", "start"

	run(t, w, func(wait func()) {
		if s := w.last(); s.Phase != status.Failed || s.Error == nil {
			t.Errorf("while it is late: %+v", s)
		}
		w.state.Active, w.state.Sub = "active", "running"
		w.units <- "a.service"
		wait()
		if s := w.last(); s.Phase != status.Applied || s.Error != nil {
			t.Errorf("once it is up: %+v, error %+v", s, s.Error)
		}
	})
}

func TestResumeThatFailsIsTriedAgain(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(func()) {})
	w.resume, w.resumed = errors.New("place /var/x: no space left on device"), 0
	run(t, w, func(wait func()) {
		if s := w.last(); s.Phase != status.Failed || s.Error == nil ||
			s.Error.Problem != w.resume.Error() {
			t.Errorf("after it failed: %+v, error %+v", s, s.Error)
		}

		w.source <- struct{}{}
		wait()
		if s := w.last(); s.Phase != status.Failed || w.resumed != 2 {
			t.Errorf("after the source was touched: %+v, resumed %d times", s, w.resumed)
		}

		w.resume = nil
		w.pass(retryDelay)
		wait()
		if s := w.last(); s.Phase != status.Applied || s.Error != nil || w.resumed != 3 {
			t.Errorf("after a while: %+v, resumed %d times", s, w.resumed)
		}

		w.pass(2 * retryDelay)
	})
	if w.resumed != 3 || len(w.applied) != 1 {
		t.Errorf("resumed %d times, applied %d times", w.resumed, len(w.applied))
	}
}

func TestUnfinishedApplyIsCompletedBeforeItCountsAsApplied(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	w.fail = fmt.Errorf("%w: reload systemd: timeout", apply.ErrUnfinished)
	run(t, w, func(wait func()) {
		if s := w.last(); s.Phase != status.Failed {
			t.Errorf("after the reload failed: %+v", s)
		}

		w.resume = w.fail
		w.source <- struct{}{}
		wait()
		if s := w.last(); s.Phase != status.Failed || w.resumed != 2 {
			t.Errorf("same text, still no reload: %+v, resumed %d times", s, w.resumed)
		}

		w.resume = nil
		w.source <- struct{}{}
		wait()
		if s := w.last(); s.Phase != status.Applied || w.resumed != 3 || len(w.applied) != 1 {
			t.Errorf("once completed: %+v, resumed %d, applied %d times",
				s, w.resumed, len(w.applied))
		}
	})
}
