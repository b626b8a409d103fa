// Package units has the systemd of tests: a [Fake] keeps units in memory.
//
//	job --> Around --> is the unit known? --> Run --> unit.State
//
// A suite of statements about systemd runs on the fake, and on the systemd of the
// image. Where they differ, the fake is wrong.
package units

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/loam-os/loam/agent/unit"
)

// Fake implements apply.Units and loop.Units. Without any field set, it knows
// every unit, and every job succeeds at once. Its fields may only be changed
// while no call is under way.
//
// It is stricter than systemd in one thing: it knows a new unit only after a
// daemon-reload, while systemd may find a file that it has not looked for
// before. So a test finds a daemon-reload that is missing.
type Fake struct {
	// Texts returns the texts of all units, each with its drop-ins, when
	// systemd reads its units: see [Files]. nil knows every unit, and gives it
	// no text.
	Texts func() map[string]string

	// Around is called for each job and daemon-reload, and calls do to have it
	// done. What it returns is the result. It may wait: jobs do not wait for
	// each other. nil only calls do.
	Around func(ctx context.Context, job Job, do func() error) error

	// Run is what the program of a unit does when it starts. An error makes
	// the unit fail, with the exit code of an [Exit] or 1. nil exits as the
	// text says: "exit 3" in ExecStart= is a failure.
	Run func(name, text string) error

	// Broken is the error of every call, as of a lost connection; nil for none.
	Broken error

	// News is what Changes returns. nil never sends a name.
	News chan string

	mu     sync.Mutex
	texts  map[string]string
	states map[string]unit.State
	starts int
	calls  []string
}

// Job is something that systemd is asked to do.
type Job struct {
	// Verb is "start", "stop", "restart", "reload" or "daemon-reload".
	Verb string
	// Unit is empty for a daemon-reload.
	Unit string
}

func (j Job) String() string { return strings.TrimSuffix(j.Verb+" "+j.Unit, " ") }

// Exit is the exit code of a program that fails.
type Exit int

func (e Exit) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// Slow returns an Around with which each job takes d.
func Slow(d time.Duration) func(ctx context.Context, job Job, do func() error) error {
	return func(ctx context.Context, _ Job, do func() error) error {
		select {
		case <-time.After(d):
			return do()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Reload implements apply.Units; so do the following.
func (f *Fake) Reload(ctx context.Context) error {
	return f.ask(ctx, Job{Verb: "daemon-reload"}, func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.load()
		return nil
	})
}

func (f *Fake) Start(ctx context.Context, name string) error {
	return f.ask(ctx, Job{"start", name}, func() error { return f.start("start", name) })
}

func (f *Fake) Restart(ctx context.Context, name string) error {
	return f.ask(ctx, Job{"restart", name}, func() error { return f.start("restart", name) })
}

func (f *Fake) Stop(ctx context.Context, name string) error {
	return f.ask(ctx, Job{"stop", name}, func() error { return f.stop(name) })
}

func (f *Fake) ReloadUnit(ctx context.Context, name string) error {
	return f.ask(ctx, Job{"reload", name}, func() error { return f.reload(name) })
}

func (f *Fake) ResetFailed(_ context.Context, name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.states[name]
	if s.Active == "failed" {
		s.Active, s.Sub, s.Result = "inactive", "dead", "success"
		f.states[name] = s
	}
}

func (f *Fake) Show(_ context.Context, names []string) ([]unit.State, error) {
	if f.Broken != nil || len(names) == 0 {
		return nil, f.Broken
	}

	f.mu.Lock()
	defer f.mu.Unlock()
	states := make([]unit.State, len(names))
	for i, name := range names {
		states[i] = f.state(name)
	}
	return states, nil
}

// Changes implements loop.Units.
func (f *Fake) Changes(ctx context.Context) (<-chan string, error) {
	if f.News != nil {
		return f.News, nil
	}
	changes := make(chan string)
	context.AfterFunc(ctx, func() { close(changes) })
	return changes, nil
}

// Boot forgets all states, reads the units and starts those with these names, as
// a start of the machine does. It is no job, so Around is not called.
func (f *Fake) Boot(names ...string) error {
	f.mu.Lock()
	f.states = map[string]unit.State{}
	f.load()
	f.mu.Unlock()

	var errs []error
	for _, name := range names {
		errs = append(errs, f.start("start", name))
	}
	return errors.Join(errs...)
}

// Calls returns the jobs that were done since the last call, as "restart
// a.service".
func (f *Fake) Calls() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	calls := f.calls
	f.calls = nil
	return calls
}

// Starts returns how often a program was started.
func (f *Fake) Starts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts
}

// Text returns the text of a unit, as systemd has read it last, and reports
// whether the unit is known.
func (f *Fake) Text(name string) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.text(name)
}

// Set gives a unit a state, as if it had changed by itself. Fields that follow
// from the text of the unit are filled in where they are empty.
func (f *Fake) Set(name string, s unit.State) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.set(name, s)
}

// Memory is what systemd knows of its units. It outlives the agent.
type Memory struct {
	Texts  map[string]string
	States map[string]unit.State
	starts int
}

// Memory returns a copy of what the fake knows.
func (f *Fake) Memory() Memory {
	f.mu.Lock()
	defer f.mu.Unlock()
	return Memory{maps.Clone(f.texts), maps.Clone(f.states), f.starts}
}

// Restore makes the fake know what m has.
func (f *Fake) Restore(m Memory) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.texts, f.states, f.starts = maps.Clone(m.Texts), maps.Clone(m.States), m.starts
}

// ask does a job, by Around if that is set.
func (f *Fake) ask(ctx context.Context, job Job, do func() error) error {
	if f.Broken != nil {
		return f.Broken
	}

	recorded := func() error {
		f.mu.Lock()
		f.calls = append(f.calls, job.String())
		f.mu.Unlock()
		return do()
	}
	if f.Around == nil {
		return recorded()
	}
	return f.Around(ctx, job, recorded)
}

// start starts a unit for the job verb, unless it is up and verb is "start".
func (f *Fake) start(verb, name string) error {
	text, begins, err := f.begin(verb, name)
	if !begins || err != nil {
		return err
	}

	exit := f.run(name, text)
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.states[name]
	s.Active, s.Sub, s.Job = "active", "running", false
	switch {
	case exit != nil:
		s.Active, s.Sub = "failed", "failed"
		s.Result, s.ExitCode = "exit-code", exitCode(exit)
	case typeOf(text) == "oneshot" && isTrue(value(text, "RemainAfterExit")):
		s.Sub = "exited"
	case typeOf(text) == "oneshot":
		s.Active, s.Sub = "inactive", "dead"
	}
	f.set(name, s)
	if exit == nil {
		return nil
	}

	failed := &unit.JobError{Verb: verb, Unit: name, Result: "failed", State: f.state(name)}
	if errors.As(exit, new(Exit)) {
		return failed
	}
	return errors.Join(failed, exit)
}

// begin makes a unit one that starts, and returns its text. begins is false if it
// is up already.
func (f *Fake) begin(verb, name string) (text string, begins bool, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, known := f.text(name)
	if !known {
		return "", false, fmt.Errorf("%s %s: Unit %s not found", verb, name, name)
	}
	if verb == "start" && f.states[name].Running() {
		return "", false, nil
	}

	f.starts++
	f.set(name, unit.State{
		Active:       "activating",
		Sub:          "start",
		Result:       "success",
		InvocationID: fmt.Sprintf("%032x", f.starts),
		Job:          true,
	})
	return text, true, nil
}

func (f *Fake) stop(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state(name)
	switch {
	case s.Load == "not-found" && s.Active == "inactive":
		return fmt.Errorf("stop %s: Unit %s not loaded", name, name)
	case s.Active == "inactive", s.Active == "failed":
		return nil
	}

	f.set(name, unit.State{
		Active:       "inactive",
		Sub:          "dead",
		Result:       "success",
		InvocationID: s.InvocationID,
	})
	return nil
}

func (f *Fake) reload(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	text, known := f.text(name)
	s := f.state(name)
	switch {
	case !known:
		return fmt.Errorf("reload %s: Unit %s not found", name, name)
	case f.Texts != nil && value(text, "ExecReload") == "":
		return fmt.Errorf("reload %s: Job type reload is not applicable for unit %s", name, name)
	case s.Active != "active":
		return &unit.JobError{Verb: "reload", Unit: name, Result: "invalid", State: s}
	}
	return nil
}

// load reads the texts. The caller holds mu, as of all methods below.
func (f *Fake) load() {
	if f.Texts != nil {
		f.texts = f.Texts()
	}
}

func (f *Fake) text(name string) (text string, known bool) {
	text, known = f.texts[name]
	return text, known || f.Texts == nil
}

func (f *Fake) set(name string, s unit.State) {
	if f.states == nil {
		f.states = map[string]unit.State{}
	}
	f.states[name] = s
}

// state returns the state of a unit with what follows from its text.
func (f *Fake) state(name string) unit.State {
	s, ok := f.states[name]
	if !ok {
		s = unit.State{Active: "inactive", Sub: "dead", Result: "success"}
	}
	text, known := f.text(name)
	s.Name, s.ID = name, name

	if s.Load == "" {
		s.Load = "not-found"
		if known {
			s.Load = "loaded"
		}
	}
	if s.Type == "" && known && strings.HasSuffix(name, ".service") {
		s.Type = typeOf(text)
	}
	if s.StartLimit == 0 {
		s.StartLimit = startLimit(text)
	}
	return s
}
