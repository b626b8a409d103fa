package unit

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"
)

// changedSignal is what systemd sends when properties of an object change.
const changedSignal = "PropertiesChanged"

// signals is the state that follows from systemd's signals. godbus delivers
// signals and replies in the order in which systemd sent them, each before it
// reads the next.
type signals struct {
	mu sync.Mutex

	// known are the units as they were last shown, by object, if no signal
	// about them came since.
	known map[dbus.ObjectPath]State

	// shows are the calls under way.
	shows []*showing

	// ended are the results of jobs that no caller waits for yet but one may;
	// waiting are the callers that do. expected counts both.
	ended    map[dbus.ObjectPath]string
	waiting  map[dbus.ObjectPath][]chan<- string
	expected int

	// listeners receive the names of units that change.
	listeners []listener

	// lost is closed when the connection ends.
	lost chan struct{}
}

// showing is a unit whose state is being requested, stale if a signal about it
// came meanwhile.
type showing struct {
	path  dbus.ObjectPath
	stale bool
}

func newSignals() *signals {
	return &signals{
		known:   map[dbus.ObjectPath]State{},
		ended:   map[dbus.ObjectPath]string{},
		waiting: map[dbus.ObjectPath][]chan<- string{},
		lost:    make(chan struct{}),
	}
}

// Terminate implements dbus.Terminator: the connection has ended.
func (s *signals) Terminate() { close(s.lost) }

// DeliverSignal implements dbus.SignalHandler.
func (s *signals) DeliverSignal(_, name string, signal *dbus.Signal) {
	if s.handle(signal.Path, name) {
		return
	}

	switch name {
	case "UnitNew", "UnitRemoved":
		// The units that it requires, or that require it, are signaled as
		// changed. A unit that has changed before systemd came to announce it is
		// announced as new only (bus_unit_send_change_signal in systemd's
		// dbus-unit.c).
		if path, ok := argument[dbus.ObjectPath](signal, 1); ok {
			s.forget(path)
			s.notify(unitName(path))
		}
	case "JobRemoved":
		job, isJob := argument[dbus.ObjectPath](signal, 1)
		result, isResult := argument[string](signal, 3)
		if isJob && isResult {
			s.end(job, result)
		}
	}
}

// handle does what follows from a signal without its arguments, and reports
// whether that is all.
func (s *signals) handle(object dbus.ObjectPath, name string) bool {
	switch name {
	case changedSignal:
		if strings.HasPrefix(string(object), unitsPath+"/") {
			s.forget(object)
			s.notify(unitName(object))
		}
		return true
	case "JobNew":
		return true // Its end is what counts.
	case "Reloading":
		// Properties from a unit's file are not signaled as changed.
		s.forgetAll()
		return true
	}
	return false
}

// argument returns the argument of a signal at index i, if it has that type.
func argument[T any](signal *dbus.Signal, i int) (value T, ok bool) {
	if len(signal.Body) <= i {
		return value, false
	}
	value, ok = signal.Body[i].(T)
	return value, ok
}

func (s *signals) forget(path dbus.ObjectPath) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, path)
	for _, show := range s.shows {
		show.stale = show.stale || show.path == path
	}
}

func (s *signals) forgetAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.known)
	for _, show := range s.shows {
		show.stale = true
	}
}

// recall returns the unit as it was last shown, if no signal about it came
// since.
func (s *signals) recall(path dbus.ObjectPath) (State, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, ok := s.known[path]
	return state, ok
}

// begin records that a unit's state is being requested.
func (s *signals) begin(path dbus.ObjectPath) *showing {
	s.mu.Lock()
	defer s.mu.Unlock()
	show := &showing{path: path}
	s.shows = append(s.shows, show)
	return show
}

// finish ends that, and caches state, nil if none, unless it is stale.
func (s *signals) finish(show *showing, state *State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shows = slices.DeleteFunc(s.shows, func(other *showing) bool { return other == show })
	if state != nil && !show.stale {
		s.known[show.path] = *state
	}
}

// expectation is a job that is being requested.
type expectation struct{ *signals }

// expectJob must be called before the call that creates the job: the job may
// end before the caller has its reply.
func (s *signals) expectJob() expectation {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected++
	return expectation{s}
}

// forget ends the expectation.
func (e expectation) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.expected--
	if e.expected == 0 {
		clear(e.ended)
		clear(e.waiting)
	}
}

// await waits for the result of a job.
func (e expectation) await(ctx context.Context, job dbus.ObjectPath) (string, error) {
	result := make(chan string, 1)
	e.wait(job, result)
	select {
	case got := <-result:
		return got, nil
	case <-e.lost:
		return "", errors.New("connection to systemd lost")
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (e expectation) wait(job dbus.ObjectPath, result chan<- string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if got, ok := e.ended[job]; ok {
		result <- got
		return
	}
	e.waiting[job] = append(e.waiting[job], result)
}

// end records the result of a job. Two callers may wait for it: systemd merges
// equal jobs.
func (s *signals) end(job dbus.ObjectPath, result string) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.expected == 0 {
		return
	}

	s.ended[job] = result
	for _, waiting := range s.waiting[job] {
		waiting <- result
	}

	delete(s.waiting, job)
}
