package loop

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint"
)

// all is a state with everything due.
func all() State {
	return State{
		Due: Due{
			Judge:  true,
			Resume: true,
			Read:   true,
			Probe:  true,
			Start:  true,
			Prune:  true,
		},
		Change: Change{Verdict: health.Verdict{Word: health.Good}},
		Drift:  Drift{Touched: []string{"/etc/a"}},
	}
}

func TestNextIsTheFirstThatIsDue(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state func(s *State)
		want  *Kind
	}{
		{"a step that runs is waited for", func(s *State) { s.Busy = true }, Wait},
		{"a change is judged before the next step", func(*State) {}, Judge},
		{
			"a change is judged in a reset, too",
			func(s *State) { s.Facts.Reset = &status.Reset{} },
			Judge,
		},
		{"in a reset all else is dropped", func(s *State) {
			s.Due.Judge = false
			s.Facts.Reset = &status.Reset{}
		}, Idle},
		{"in a reset touched paths are dropped", func(s *State) {
			*s = State{Facts: status.Status{Reset: &status.Reset{}}, Drift: s.Drift}
		}, Idle},
		{"in a reset with nothing due, nothing is done", func(s *State) {
			*s = State{Facts: status.Status{Reset: &status.Reset{}}}
		}, Wait},
		{"what was cut off is completed first", func(s *State) { s.Due.Judge = false }, Resume},
		{"a verdict is carried out before the node changes again", func(s *State) {
			s.Due = Due{
				Read:  true,
				Probe: true,
				Start: true,
				Prune: true,
			}
		}, Conclude},
		{"a bad verdict is carried out, too", func(s *State) {
			s.Due = Due{Read: true}
			s.Change.Verdict.Word = health.Bad
		}, Conclude},
		{"a verdict that is still to come is not carried out", func(s *State) {
			s.Due = Due{Read: true}
			s.Change.Verdict.Word = health.Wait
		}, Repair},
		{"drift is repaired before the source is read", func(s *State) {
			s.Due = Due{
				Read:  true,
				Probe: true,
				Start: true,
				Prune: true,
			}
			s.Change.Verdict = health.Verdict{}
		}, Repair},
		{"the source is read before anything is probed", func(s *State) {
			*s = State{Due: Due{
				Read:  true,
				Probe: true,
				Start: true,
				Prune: true,
			}}
		}, Read},
		{"probes come before units that are owed", func(s *State) {
			*s = State{Due: Due{Probe: true, Start: true, Prune: true}}
		}, Probe},
		{"units that are owed are started before anything is pruned", func(s *State) {
			*s = State{Due: Due{Start: true, Prune: true}}
		}, Start},
		{"no unit is started between two generations", func(s *State) {
			*s = State{Due: Due{Start: true}, Faults: Faults{Unfinished: &status.Error{}}}
		}, Wait},
		{"between two generations room is made all the same", func(s *State) {
			*s = State{
				Due:    Due{Start: true, Prune: true},
				Faults: Faults{Unfinished: &status.Error{}},
			}
		}, Prune},
		{"with nothing due, nothing is done", func(s *State) { *s = State{} }, Wait},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := all()
			tt.state(&s)
			if got := Next(s).Kind; got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

// TestEveryStepIsDoneOnce: a step that has begun is not the next one again.
func TestEveryStepIsDoneOnce(t *testing.T) {
	var order []*Kind
	s := all()
	for step := Next(s); step.Kind != Wait; step = Next(s) {
		order = append(order, step.Kind)
		if len(order) > 10 {
			break
		}

		s, _ = s.Begin(step, 0)
		s.Busy = false
	}
	want := []*Kind{Judge, Resume, Conclude, Repair, Read, Probe, Start, Prune}
	if diff := cmp.Diff(want, order, byValue); diff != "" {
		t.Errorf("steps (-want +got):\n%s", diff)
	}
}

func TestStepHasAllThatItNeeds(t *testing.T) {
	have := generation.Manifest{Number: 1, Digest: "one"}
	content := map[string]config.Content{"digest": config.Text("x")}
	probes := []config.Probe{{Path: "/etc/hosts.toml"}}
	verdict := health.Verdict{Word: health.Bad, Reason: "of the test"}
	base := State{
		Facts:   status.Status{Waits: probes},
		Desired: Desired{Content: content},
		Current: Current{Generation: have},
	}

	for _, tt := range []struct {
		name  string
		state func(s *State)
		want  Step
	}{
		{"a verdict, and the change it is on", func(s *State) { s.Change.Verdict = verdict },
			Step{Kind: Conclude, Verdict: verdict, Have: have}},
		{"paths to repair, and their content", func(s *State) { s.Drift.Touched = []string{"/etc/a"} },
			Step{Kind: Repair, Paths: []string{"/etc/a"}, Content: content}},
		{"the generation, of which files are left out of a read", func(s *State) { s.Due.Read = true },
			Step{Kind: Read, Have: have, Desired: Desired{Content: content}}},
		{"probes", func(s *State) { s.Due.Probe = true },
			Step{Kind: Probe, Probes: probes}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := base
			tt.state(&s)
			if diff := cmp.Diff(tt.want, Next(s), byValue); diff != "" {
				t.Errorf("step (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRequestIsAdmittedOrRefused(t *testing.T) {
	inReset := func(s *State) { s.Facts.Reset = &status.Reset{} }
	isReset := func(s *State) { s.Facts.Reset = &status.Reset{Done: true} }
	trying := func(s *State) {
		s.Change.Pending = &apply.Pending{Journal: generation.Journal{Try: &generation.Try{}}}
	}

	nothing := func(*State) {}
	for _, tt := range []struct {
		name    string
		state   func(s *State)
		request Request
		want    *Kind
		err     error
	}{
		{"apply reads first", nothing, Request{Ask: askApply{}}, Read, nil},
		{
			"apply waits for a try to be confirmed",
			trying,
			Request{Ask: askApply{}},
			nil,
			control.ErrBusy,
		},
		{"confirm", trying, Request{Ask: askConfirm{}}, Confirm, nil},
		{"rollback of a try", trying, Request{Ask: askRollback{}}, Rollback, nil},
		{"verify", nothing, Request{Ask: askVerify{}}, Verify, nil},
		{
			"the agent restarts any unit",
			nothing,
			Request{Ask: askRestart{Units: []string{"a.service"}, Any: true}},
			Restart,
			nil,
		},

		{
			"nothing is applied in a reset",
			inReset,
			Request{Ask: askApply{}},
			nil,
			ErrInReset,
		},
		{
			"nothing is restarted in a reset",
			isReset,
			Request{Ask: askRestart{Units: []string{"a.service"}, Any: true}},
			nil,
			ErrInReset,
		},
		{"the first request of a reset records it", nothing, Request{Ask: askReset{}}, BeginReset, nil},
		{"a reset is carried out by the next agent", inReset, Request{Ask: askReset{}}, RunReset, nil},
		{
			"the first caller after a reset gets its outcome",
			func(s *State) {
				isReset(s)
				s.Reset.Ran = true
			},
			Request{Ask: askReset{}},
			AnswerReset,
			nil,
		},
		{
			"the next caller has all of it done once more",
			isReset,
			Request{Ask: askReset{}},
			RunReset,
			nil,
		},
		{
			"a reset that is not complete is done again",
			func(s *State) {
				inReset(s)
				s.Reset.Ran = true
			},
			Request{Ask: askReset{}},
			RunReset,
			nil,
		},
		{"a reset that is complete can be ended", isReset, Request{Ask: askFollow{}}, EndReset, nil},
		{"a reset that is not complete goes on", inReset, Request{Ask: askFollow{}}, nil, ErrNotReset},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s State
			tt.state(&s)
			step, err := Admit(s, &tt.request)
			if step.Kind != tt.want || !errors.Is(err, tt.err) {
				t.Errorf("%q, %v; want %q, %v", step.Kind, err, tt.want, tt.err)
			}
			if err == nil && step.Request != &tt.request {
				t.Error("the step does not know its request")
			}
		})
	}
}

func TestApplyReadsTheDocumentOfTheCaller(t *testing.T) {
	step, err := Admit(State{}, &Request{Ask: askApply{Name: "f", Document: "two"}})
	if err != nil || step.Document == nil || step.Document.Name != "f" ||
		string(step.Document.Text) != "two" {
		t.Errorf("%+v, %v", step.Document, err)
	}
	step, err = Admit(State{}, &Request{Ask: askApply{}})
	if err != nil || step.Document != nil {
		t.Errorf("without a document: %+v, %v", step.Document, err)
	}
}

func TestApplyingForgetsWhatWasBefore(t *testing.T) {
	s := State{
		Facts:  status.Status{AppliedAt: status.Duration(time.Minute)},
		Change: Change{Shown: &status.Change{}},
		Faults: Faults{
			Desired: &status.Error{},
			Refusal: status.Invalid,
			Jobs:    &status.Error{},
			Drift:   &status.Error{Problem: "drift"},
		},
		Starts: Starts{Wait: lastStart},
	}

	got, _ := s.Begin(Step{Kind: Apply}, time.Hour)
	want := State{
		Busy:   true,
		Change: Change{Applying: true, Began: time.Hour},
		Faults: Faults{Drift: &status.Error{Problem: "drift"}},
	}

	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}

	if s.Facts.AppliedAt == 0 || s.Faults.Jobs == nil {
		t.Error("the state before has changed")
	}
}

func TestReadForACallerLeavesTheSourceDue(t *testing.T) {
	s := State{Due: Due{Read: true}}
	if got, _ := s.Begin(Step{Kind: Read, Request: &Request{}}, 0); !got.Due.Read {
		t.Error("the source is not read any more")
	}
}

func TestCallerLearnsWhatTheResetHasComeTo(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state State
		want  control.Result
		err   string
	}{
		{
			name:  "it is done",
			state: State{Facts: status.Status{Reset: &status.Reset{Done: true}}},
			want:  control.Reset,
		},
		{
			name: "it is done, but for something that does not count",
			state: State{
				Facts: status.Status{Reset: &status.Reset{Done: true}},
				Reset: Reset{Err: errTest},
			},
			err: "the node is reset, but: of the test",
		},
		{
			name: "it is not complete",
			state: State{
				Facts: status.Status{Reset: &status.Reset{}},
				Reset: Reset{Err: errTest},
			},
			err: "the reset is not complete: of the test\nhint: " + resetAgain,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := resetOutcome(tt.state)
			if o.Result != tt.want || (err == nil) != (tt.err == "") || (err != nil &&
				hint.Text(err) != tt.err) {
				t.Errorf("%+v, %v", o, err)
			}
		})
	}
}

func TestCallerLearnsTheVerdict(t *testing.T) {
	until := time.Unix(1, 0)
	one := generation.Manifest{Number: 1, Digest: "0123456789ab"}
	two := generation.Manifest{Number: 2, Digest: "ba9876543210"}
	trying := &apply.Pending{Journal: generation.Journal{Try: &generation.Try{Until: until}}}

	for _, tt := range []struct {
		name    string
		now     State
		verdict health.Verdict
		want    control.Outcome
		fails   bool
	}{
		{
			name:    "the change stays",
			now:     State{Current: Current{Generation: two}},
			verdict: health.Verdict{Word: health.Good, Reason: "well"},
			want: control.Outcome{
				Result:     control.Applied,
				Generation: two.Name(),
				Digest:     two.Digest,
				Reason:     "well",
			},
		},
		{
			name:    "the change waits to be confirmed",
			now:     State{Current: Current{Generation: two}, Change: Change{Pending: trying}},
			verdict: health.Verdict{Word: health.Confirm},
			want: control.Outcome{
				Result:     control.Trying,
				Generation: two.Name(),
				Digest:     two.Digest,
				Until:      until,
			},
		},
		{
			name:    "the change is reverted",
			now:     State{Current: Current{Generation: one}},
			verdict: health.Verdict{Word: health.Bad, Reason: "ill"},
			want: control.Outcome{
				Result:     control.Reverted,
				Generation: one.Name(),
				From:       two.Name(),
				Digest:     one.Digest,
				Reason:     "ill",
			},
		},
		{
			name:    "the change is bad, and there is nothing to go back to",
			now:     State{Current: Current{Generation: two}},
			verdict: health.Verdict{Word: health.Bad},
			fails:   true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o, err := verdictOutcome(tt.now, tt.verdict, two)
			if (err != nil) != tt.fails {
				t.Errorf("error %v", err)
			}
			if diff := cmp.Diff(tt.want, o); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}
