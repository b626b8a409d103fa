package etcd

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/loam-os/loam/hint"
)

func checkProblem(t *testing.T, err error, want string, hinted bool) {
	t.Helper()
	got := ""
	if err != nil {
		got = err.Error()
	}
	if got != want {
		t.Errorf("problem %q, want %q", got, want)
	}
	if hint.Of(err) != "" != hinted {
		t.Errorf("hint %q", hint.Of(err))
	}
}

// scenario is an etcd to which things happen, and the node that looks at it. Its
// file has live data, history and free pages.
type scenario struct {
	t      *testing.T
	random *rand.Rand
	now    time.Time
	last   Last

	state State
	// held are free pages that etcd counts as in use until the next write.
	live, history, held int64

	// defragmented is when that was done last, the zero Time if the node does not
	// remember it.
	defragmented time.Time
	// changed is whether something was written or deleted since the node has
	// compacted, fresh whether it has compacted such a change since then.
	changed bool
	fresh   bool
	log     []string
}

func newScenario(t *testing.T, seed uint64) *scenario {
	return &scenario{t: t, random: rand.New(rand.NewPCG(seed, 0)), now: noon, state: well()}
}

func (s *scenario) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s\nafter %q", fmt.Sprintf(format, args...), s.log)
}

// write raises the alarm as etcd does. An update leaves the old value as history.
func (s *scenario) write(size int64, update bool) {
	if s.state.has(NoSpace) {
		return
	}
	if s.state.Size >= s.state.Quota {
		s.state.Alarms = append(s.state.Alarms, Alarm{1, NoSpace})
		return
	}

	s.state.Revision++
	s.changed = true
	s.held = 0
	if update && s.live > size {
		s.history += size
	} else {
		s.live += size
	}
	s.grow()
}

// grow takes free pages before the file becomes larger.
func (s *scenario) grow() {
	s.state.InUse = s.live + s.history + s.held
	s.state.Size = max(s.state.Size, s.state.InUse)
}

// deleteData works with an alarm, too.
func (s *scenario) deleteData() {
	size := s.random.Int64N(s.live + 1)
	s.live -= size
	s.history += size
	s.held = 0
	s.state.Revision++
	s.changed = true
	s.grow()
}

// happen is a minute of what clients, operators and power cuts do.
func (s *scenario) happen() {
	switch s.random.IntN(12) {
	case 0, 1, 2, 3:
		for range s.random.IntN(8) {
			s.write(s.random.Int64N(100*mib), s.random.IntN(2) == 0)
		}
	case 4:
		s.deleteData()
	case 5:
		s.last = Last{} // The agent starts again.
		s.defragmented = time.Time{}
	case 6:
		s.state.Leader = uint64(s.random.IntN(2))
	case 7:
		s.state.Members = 1 + s.random.IntN(3)
	case 8:
		// The API server compacts, which is a write.
		if !s.state.has(NoSpace) {
			s.compact()
		}
	case 9:
		if s.random.IntN(40) == 0 {
			s.state.Alarms = append(s.state.Alarms, Alarm{uint64(1 + s.random.IntN(3)), Corrupt})
		}
	case 10:
		if s.random.IntN(20) == 0 {
			s.state.Alarms = append(s.state.Alarms, Alarm{2, NoSpace})
		}
	}
}

func (s *scenario) compact() {
	if s.random.IntN(3) == 0 {
		s.held += s.random.Int64N(s.history + 1)
	}
	s.history = 0
	s.grow()
}

// look does what a look of [Maintenance] does, with steps that may fail, and in
// between which clients go on.
func (s *scenario) look(faults bool) {
	s.t.Helper()
	for i := 0; ; i++ {
		if i == maxSteps {
			s.fail("a look does not end")
		}
		step := Next(s.state, s.now, s.last)
		if step.Action == Nothing {
			return
		}

		s.log = append(s.log, fmt.Sprintf("%s %s", s.now.Format(time.TimeOnly), step.Action))
		s.check(step)
		if faults && s.random.IntN(5) == 0 {
			s.last = s.last.After(step, s.now, errors.New("etcd has ended"))
			return
		}
		s.apply(step)
		s.last = s.last.After(step, s.now, nil)
		if faults && s.random.IntN(5) == 0 {
			s.deleteData()
		}
	}
}

// check refuses steps that must never be.
func (s *scenario) check(step Step) {
	s.t.Helper()
	if s.state.has(Corrupt) || s.state.Leader == 0 {
		s.fail("%s of an etcd that is not well", step.Action)
	}

	alarm := s.state.owns(NoSpace)
	switch step.Action {
	case Defragment:
		since := s.now.Sub(s.defragmented)
		if !s.defragmented.IsZero() && (since < alarmPause || (since < time.Hour && !alarm)) {
			s.fail("defragmented again after %s", since)
		}
		if alarm && !s.state.fits(s.state.InUse) && !s.defragmented.IsZero() && !s.fresh {
			s.fail("defragmented for nothing: %+v", s.state)
		}
		if !alarm && s.state.Members > 1 {
			s.fail("defragmented beside other members")
		}

	case Disarm:
		if step.Member != s.state.Member || !alarm || s.state.Size >= s.state.Quota*8/10 {
			s.fail("disarmed %+v", s.state)
		}
	case Compact:
		if !alarm {
			s.fail("compacted without an alarm")
		}
	case Nothing:
	}
}

func (s *scenario) apply(step Step) {
	switch step.Action {
	case Compact:
		s.compact()
		s.fresh = s.fresh || s.changed
		s.changed = false
	case Defragment:
		s.held = 0
		s.state.InUse = s.live + s.history
		s.state.Size = s.state.InUse
		s.defragmented = s.now
		s.fresh = false
	case Disarm:
		var others []Alarm
		for _, alarm := range s.state.Alarms {
			if alarm != (Alarm{step.Member, NoSpace}) {
				others = append(others, alarm)
			}
		}
		s.state.Alarms = others
	case Nothing:
	}
}

// TestScenarios: whatever happens, no step is one that must not be, each look
// ends, and an etcd whose data leaves room writes again once it is left alone.
func TestScenarios(t *testing.T) {
	var compacted, repaired, full int
	for seed := range uint64(2000) {
		s := newScenario(t, seed)
		for range 300 {
			s.happen()
			s.look(true)
			s.now = s.now.Add(time.Minute)
		}

		// From now on there is a leader and no other member.
		s.state.Leader = 1
		s.state.Members = 1
		before := s.state.owns(NoSpace)
		for range 15 {
			s.look(false)
			s.now = s.now.Add(time.Minute)
		}

		switch after := s.state.owns(NoSpace); {
		case s.state.has(Corrupt):
		case after && s.state.fits(s.live):
			s.fail("%d: it refuses writes with %d of %d bytes", seed, s.live, s.state.Quota)
		case after && s.state.Condition() != Full:
			s.fail("%d: it does not say that it is full: %s", seed, s.state.Condition())
		case after:
			full++
		case before:
			repaired++
		}
		compacted += len(s.log)
	}
	if compacted == 0 || repaired == 0 || full == 0 {
		t.Errorf("%d steps, %d repaired, %d full: some never happen", compacted, repaired, full)
	}
}
