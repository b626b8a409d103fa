package loop

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
)

// recorder is a cluster that keeps what it is told.
type recorder struct {
	events []string
	last   status.Status
}

func (r *recorder) Report(s status.Status)                  { r.last = s }
func (r *recorder) Prepare(context.Context, config.Desired) {}
func (r *recorder) Link() status.Cluster                    { return status.Cluster{} }
func (r *recorder) Linked() <-chan struct{}                 { return nil }
func (r *recorder) WatchRestarts() int                      { return 0 }

func (r *recorder) Event(_ bool, reason, message string) {
	r.events = append(r.events, reason+": "+message)
}

// steady and limit are as on a node.
const (
	steady = 10 * time.Second
	limit  = 3 * time.Minute
)

// world is a node in memory: engine, systemd and source in one. Its text is
// what the source says, "" for no document.
type world struct {
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
	// told are those of shown that were news.
	told []status.Status
	// resume and fail are what Resume and Apply return; resumed counts.
	resume, fail error
	resumed      int
	// refuse is what Apply returns without having changed anything.
	refuse error
	// pending and verdict are what Pending and Judge return; good is where a bad
	// verdict leads.
	pending apply.Pending
	verdict health.Verdict
	judged  bool
	good    generation.Manifest
	settled []health.Word
	// owed is what Owed and Retry return, retried when Retry was called.
	owed    []string
	retried []time.Duration
	began   time.Time
	// cluster is told how the node stands; nil for none.
	cluster Cluster
	held    map[string]apply.Held
	// broken is what Repair returns next, looked what it was asked for.
	broken, looked []string
	showed         int
	requests       Requests
	drift          chan []string
	unwatched      error
	guarded        []string
	unreachable    error
	// notes are those of documents, by their text.
	notes map[string][]config.Note
	// hold and holdRepair, if set, keep Apply and Repair waiting until closed.
	hold, holdRepair chan struct{}
	tidied           int
	// did is what the loop had done, in order: "read", "apply", "repair /etc/a".
	did []string
	// restless has the source change whenever it is read.
	restless bool
	queries  Queries
	sample   metrics.Sample
}

func newWorld() *world {
	return &world{
		held: map[string]apply.Held{}, source: make(chan struct{}), units: make(chan string),
		state: unit.State{Name: "a.service", Active: "active", Sub: "running"},
	}
}

func (w *world) Resume(context.Context) (apply.Resumed, error) {
	w.resumed++
	return apply.Resumed{}, w.resume
}

func (w *world) Current() (generation.Manifest, bool, error) {
	return w.current, w.current.Digest != "", nil
}

func (w *world) Apply(_ context.Context, r apply.Request) (generation.Manifest, error) {
	d, source := r.Desired, r.Source
	w.did = append(w.did, "apply")
	if w.restless {
		time.Sleep(time.Millisecond) // The bubble's clock goes on only while nobody is busy.
	}
	if w.hold != nil {
		<-w.hold
	}
	if w.refuse != nil {
		return generation.Manifest{}, w.refuse
	}
	w.applied = append(w.applied, d.Digest())
	w.good = w.current
	if w.judged {
		w.pending = apply.Pending{Journal: generation.Journal{To: "x", Good: w.good.Name()}, Watched: true}
		if r.Try > 0 {
			w.pending.Try = &generation.Try{Until: time.Now().Add(r.Try)}
		}
	}
	w.current = generation.Manifest{
		Number: len(w.applied), Digest: d.Digest(), Source: source,
		Units:   []generation.Unit{{Name: "a.service", Enabled: true}},
		Entries: []generation.Entry{{Path: "/etc/a", Kind: generation.KindLink}},
	}
	return w.current, w.fail
}

func (w *world) Pending() (apply.Pending, bool, error) { return w.pending, w.pending.To != "", nil }

func (w *world) Judge(context.Context) (health.Verdict, error) { return w.verdict, nil }

func (w *world) Settle(_ context.Context, v health.Verdict) (generation.Manifest, error) {
	w.settled = append(w.settled, v.Word)
	w.pending, w.verdict = apply.Pending{}, health.Verdict{}
	if v.Word == health.Bad {
		w.held[w.current.Digest] = apply.Held{Digest: w.current.Digest[:12], Why: v.Reason}
		w.current = w.good
	}
	return w.current, nil
}

func (w *world) Owed() ([]string, error) { return w.owed, nil }

func (w *world) Retry(context.Context) ([]string, error) {
	w.retried = append(w.retried, time.Since(w.began))
	var err error
	if len(w.owed) > 0 {
		err = errors.New("start a.service: failed")
	}
	return w.owed, err
}

func (w *world) Confirm() (generation.Manifest, error) {
	w.pending.Try = nil
	return w.current, nil
}

func (w *world) Rollback(_ context.Context, name string) (generation.Manifest, error) {
	w.held[w.current.Digest] = apply.Held{Digest: w.current.Digest[:12], Why: "rolled back", Operator: true}
	w.current = w.good
	return w.current, nil
}

func (w *world) Held(digest string) (apply.Held, bool, error) {
	h, ok := w.held[digest]
	return h, ok, nil
}

func (w *world) Hold(h apply.Held) error {
	w.held[h.Digest] = h
	return nil
}

func (w *world) Release(digest string) error {
	delete(w.held, digest)
	return nil
}

func (w *world) Set(_ string, paths []string) error {
	w.guarded = paths
	return nil
}

func (w *world) Events() <-chan []string { return w.drift }

func (w *world) Err() error { return w.unwatched }

func (w *world) Repair(_ context.Context, paths []string, _ map[string]config.Content) ([]string, error) {
	if w.holdRepair != nil {
		<-w.holdRepair
	}
	w.looked = append(w.looked, paths...)
	w.did = append(w.did, "repair "+strings.Join(paths, " "))
	repaired := w.broken
	w.broken = nil
	return repaired, nil
}

func (w *world) Tidy() error { w.tidied++; return nil }

func (w *world) Verify(context.Context, map[string]config.Content, bool) (apply.Verified, error) {
	return apply.Verified{Checked: 1}, nil
}

func (w *world) Start(_ context.Context, name string) error {
	w.started = append(w.started, name)
	return nil
}

func (w *world) Restart(_ context.Context, name string) error {
	w.restarted = append(w.restarted, name)
	return nil
}

func (w *world) Show(_ context.Context, names []string) ([]unit.State, error) {
	w.showed++
	if len(names) == 0 {
		return nil, nil
	}
	return []unit.State{w.state}, nil
}

func (w *world) Changes(context.Context) (<-chan string, error) { return w.units, nil }

func (w *world) Watch(context.Context) (<-chan struct{}, error) { return w.source, nil }

func (w *world) Read(context.Context) (source.Document, error) {
	w.did = append(w.did, "read")
	if w.restless {
		w.text += "."
		select {
		case w.source <- struct{}{}:
		default: // The loop has not taken the last yet.
		}
	}
	if w.text == "" {
		return source.Document{}, fmt.Errorf("read: %w", source.ErrAbsent)
	}
	return source.Document{Name: "test.yaml", Text: []byte(w.text)}, nil
}

// decode takes any text but "bad" for a configuration with one file.
func (w *world) decode(_ context.Context, d source.Document) (config.Desired, error) {
	if string(d.Text) == "bad" {
		return config.Desired{}, document.Errors{{File: d.Name, Line: 3, Path: "spec", Problem: "bad", Hint: "better"}}
	}
	desired := config.Desired{Files: []config.File{{Path: "/etc/a", Content: config.Inline(d.Text)}}, Notes: w.notes[string(d.Text)]}
	if string(d.Text) == "probed" {
		desired.Files = append(desired.Files, config.File{Path: "/etc/hosts.toml", Content: config.Text("mirror")})
		desired.Probes = []config.Probe{{Path: "/etc/hosts.toml", URLs: []string{"https://mirror"}}}
	}
	return desired, nil
}

func (w *world) agent() *Loop {
	start := time.Now()
	w.began = start
	return &Loop{
		Engine: w, Units: w, Source: w, Decode: w.decode, DebugShells: []string{"ttyS1"}, Log: zap.NewNop(),
		Requests: w.requests, Queries: w.queries, Drift: w, Cluster: w.cluster, Reach: func(context.Context, config.Probe) error { return w.unreachable },
		Ready: func() error { return nil }, Steady: steady, Limit: limit, Now: func() time.Duration { return time.Since(start) + time.Second },
		Publish: func(s status.Status, news bool) {
			w.shown = append(w.shown, s)
			if news {
				w.news, w.told = append(w.news, s.Phase), append(w.told, s)
			}
		},
	}
}

// run runs an agent in a bubble; step is what happens to the world, with time
// to settle after each call of its argument.
func run(t *testing.T, w *world, step func(settle func())) { t.Helper(); runEngine(t, w, w, step) }

// runEngine is run with another engine.
func runEngine(t *testing.T, w *world, engine Engine, step func(settle func())) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w.source, w.units = make(chan struct{}, 1), make(chan string)
		w.requests, w.drift, w.queries = make(Requests), make(chan []string), make(Queries)
		ctx, cancel := context.WithCancel(t.Context())
		a, done := w.agent(), make(chan error)
		a.Engine = engine
		go func() { done <- a.Run(ctx) }()
		settle := func() {
			time.Sleep(time.Second) // of the bubble's clock
			synctest.Wait()
		}
		settle()
		step(settle)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the agent ended with %v", err)
		}
	})
}

func (w *world) last() status.Status { return w.shown[len(w.shown)-1] }

func TestFirstBootApplies(t *testing.T) {
	w := newWorld()
	w.text = "one"
	run(t, w, func(func()) {})
	if s := w.last(); s.Phase != status.Applied || s.Generation != w.current.Name() || s.AppliedAt != time.Second {
		t.Errorf("status: %+v", s)
	}
	// The debug shell is news too, whenever it opens.
	if len(w.news) > 3 || w.news[0] != status.Applying || w.news[len(w.news)-1] != status.Applied {
		t.Errorf("news: %v", w.news)
	}
	if !slices.Equal(w.started, []string{"loam-debug-shell@ttyS1.service"}) || !slices.Equal(w.last().DebugShells, []string{"ttyS1"}) {
		t.Errorf("started %v, shows %v", w.started, w.last().DebugShells)
	}
}

func TestSameConfigurationIsNotAppliedAgain(t *testing.T) {
	w := newWorld()
	w.text = "one"
	run(t, w, func(settle func()) {
		showed, shown := w.showed, len(w.shown)
		w.source <- struct{}{}
		settle()
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
	w := newWorld()
	w.text = "one"
	run(t, w, func(settle func()) {
		for i := range 5 {
			w.text = fmt.Sprint("two", i)
			w.source <- struct{}{}
		}
		settle()
	})
	if len(w.applied) != 2 {
		t.Errorf("applied %d times", len(w.applied))
	}
}

// TestASourceThatCanNoLongerBeWatchedIsReadOnceMore, as its end may have hidden a change, and a person is told.
func TestASourceThatCanNoLongerBeWatchedIsReadOnceMore(t *testing.T) {
	w := newWorld()
	w.text = "one"
	run(t, w, func(settle func()) {
		w.text = "two"
		close(w.source)
		settle()
	})
	if s := w.last(); len(w.applied) != 2 || !slices.Contains(s.Warnings, "watch the source: no more events") {
		t.Errorf("applied %d times, warnings %q", len(w.applied), s.Warnings)
	}
}

func TestBadConfigurationChangesNothing(t *testing.T) {
	w := newWorld()
	w.text = "one"
	run(t, w, func(settle func()) {
		before := w.current.Name()
		w.text = "bad"
		w.source <- struct{}{}
		settle()
		s := w.last()
		if s.Phase != status.Failed || s.Error == nil || s.Error.Path != "spec" || s.Error.Hint != "better" || s.Generation != before {
			t.Errorf("status: %+v", s)
		}
		w.text = "one"
		w.source <- struct{}{}
		settle()
		if s := w.last(); s.Phase != status.Applied || s.Error != nil {
			t.Errorf("status after the mistake was undone: %+v", s)
		}
	})
	if len(w.applied) != 1 {
		t.Errorf("applied %d times", len(w.applied))
	}
}

func TestNothingIsAppliedWhileTheNodeChanges(t *testing.T) {
	w := newWorld()
	w.text = "one"
	run(t, w, func(settle func()) {
		w.hold, w.text = make(chan struct{}), "two"
		w.source <- struct{}{}
		settle()
		for _, state := range []string{"active", "failed", "active"} {
			w.state.Active = state
			w.units <- "a.service"
			settle()
			if s := w.last(); s.Phase != status.Applying || s.AppliedAt != 0 {
				t.Errorf("while it changes, its unit %s: %s, applied at %s", state, s.Phase, s.AppliedAt)
			}
		}
		close(w.hold)
		settle()
		if s := w.last(); s.Phase != status.Applied || s.Generation != w.current.Name() {
			t.Errorf("once it has: %s, generation %s", s.Phase, s.Generation)
		}
	})
}

// TestSourceWithoutADocumentIsSaid is weak point 10c of osc-contract, part 4: no
// error, and no silence either.
func TestSourceWithoutADocumentIsSaid(t *testing.T) {
	w := newWorld()
	missing := func(phase status.Phase) {
		t.Helper()
		if s := w.last(); s.Phase != phase || s.Error != nil || s.Missing != "read: no document" {
			t.Errorf("without a document: %+v, error %+v", s, s.Error)
		}
	}
	run(t, w, func(settle func()) {
		missing(status.Waiting)
		w.says("one", settle)
		if s := w.last(); s.Phase != status.Applied || s.Missing != "" {
			t.Errorf("with one: %+v", s)
		}
		w.says("", settle)
		missing(status.Applied)
	})
	run(t, w, func(func()) { missing(status.Applied) })
	if len(w.applied) != 1 {
		t.Errorf("applied %d times", len(w.applied))
	}
}

func TestAppliedWaitsForUnits(t *testing.T) {
	w := newWorld()
	w.text, w.judged = "one", true
	w.verdict = health.Verdict{Word: health.Wait, Next: time.Hour}
	w.state.Active, w.state.Sub = "activating", "start"
	run(t, w, func(settle func()) {
		if s := w.last(); s.Phase != status.Applying || s.AppliedAt != 0 {
			t.Errorf("while a unit starts: %+v", s)
		}
		shown := len(w.shown)
		w.units <- "other.service"
		settle()
		if len(w.shown) != shown {
			t.Error("a unit that is not in the configuration was news")
		}
		w.state.Active, w.state.Sub = "active", "running"
		w.units <- "a.service"
		settle()
		if s := w.last(); s.Phase != status.Applied || s.AppliedAt == 0 {
			t.Errorf("once it is up: %+v", s)
		}
		w.state.Active, w.state.Result, w.state.ExitCode = "failed", "exit-code", 3
		w.units <- "a.service"
		settle()
		if s := w.last(); s.Phase != status.Failed || s.Error.Problem != "unit a.service failed: exit-code, exit code 3" {
			t.Errorf("once it has failed: %+v", s)
		}
	})
}

func TestAgentEndsWithoutSystemd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
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
	w := newWorld()
	w.text, w.judged = "one", true
	w.verdict = health.Verdict{Word: health.Wait, Next: time.Hour}
	w.fail = fmt.Errorf("start a.service: waiting for the job: %w", context.DeadlineExceeded)
	w.state.Active, w.state.Sub = "activating", "start"
	run(t, w, func(settle func()) {
		if s := w.last(); s.Phase != status.Failed || s.Error == nil {
			t.Errorf("while it is late: %+v", s)
		}
		w.state.Active, w.state.Sub = "active", "running"
		w.units <- "a.service"
		settle()
		if s := w.last(); s.Phase != status.Applied || s.Error != nil {
			t.Errorf("once it is up: %+v, error %+v", s, s.Error)
		}
	})
}

func TestResumeThatFailsIsTriedAgain(t *testing.T) {
	w := newWorld()
	w.text = "one"
	run(t, w, func(func()) {})
	w.resume, w.resumed = errors.New("place /var/x: no space left on device"), 0
	run(t, w, func(settle func()) {
		if s := w.last(); s.Phase != status.Failed || s.Error == nil || s.Error.Problem != w.resume.Error() {
			t.Errorf("after it failed: %+v, error %+v", s, s.Error)
		}
		w.source <- struct{}{}
		settle()
		if s := w.last(); s.Phase != status.Failed || w.resumed != 2 {
			t.Errorf("after the source was touched: %+v, resumed %d times", s, w.resumed)
		}
		w.resume = nil
		time.Sleep(retryDelay)
		settle()
		if s := w.last(); s.Phase != status.Applied || s.Error != nil || w.resumed != 3 {
			t.Errorf("after a while: %+v, resumed %d times", s, w.resumed)
		}
		time.Sleep(2 * retryDelay)
	})
	if w.resumed != 3 || len(w.applied) != 1 {
		t.Errorf("resumed %d times, applied %d times", w.resumed, len(w.applied))
	}
}

func TestUnfinishedApplyIsCompletedBeforeItCountsAsApplied(t *testing.T) {
	w := newWorld()
	w.text = "one"
	w.fail = fmt.Errorf("%w: reload systemd: timeout", apply.ErrUnfinished)
	run(t, w, func(settle func()) {
		if s := w.last(); s.Phase != status.Failed {
			t.Errorf("after the reload failed: %+v", s)
		}
		w.resume = w.fail
		w.source <- struct{}{}
		settle()
		if s := w.last(); s.Phase != status.Failed || w.resumed != 2 {
			t.Errorf("same text, still no reload: %+v, resumed %d times", s, w.resumed)
		}
		w.resume = nil
		w.source <- struct{}{}
		settle()
		if s := w.last(); s.Phase != status.Applied || w.resumed != 3 || len(w.applied) != 1 {
			t.Errorf("once completed: %+v, resumed %d, applied %d times", s, w.resumed, len(w.applied))
		}
	})
}
