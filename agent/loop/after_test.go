package loop

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
)

var (
	errTest       = errors.New("of the test")
	errUnfinished = fmt.Errorf("%w: no room", apply.ErrUnfinished)
)

// operator asks for an apply.
var operator = &Request{Ask: askApply{Try: time.Minute}}

// byValue compares states and effects. A request is the same only as itself,
// and so is a kind.
var byValue = cmp.Options{
	cmp.AllowUnexported(response{}),
	cmp.Comparer(func(a, b error) bool { return errors.Is(a, b) || errors.Is(b, a) }),
	cmp.Comparer(func(a, b *Request) bool { return a == b }),
	cmp.Comparer(func(a, b *Kind) bool { return a == b }),
	cmp.Comparer(func(a, b zap.Field) bool { return a.Equals(b) }),
}

// problem returns a fault with the text of an error.
func problem(err error) *status.Error { return &status.Error{Problem: err.Error()} }

func TestAfterAStep(t *testing.T) {
	old := &status.Error{Problem: "of before"}
	two := generation.Manifest{Number: 2, Digest: "two"}

	for _, tt := range []struct {
		name   string
		state  State
		step   Step
		result Result
		want   State
	}{
		{
			name:  "a resume ends what was unfinished",
			state: State{Busy: true, Faults: Faults{Unfinished: old}},
			step:  Step{Kind: Resume},
		},
		{
			name:   "a resume that fails leaves the node unfinished",
			step:   Step{Kind: Resume},
			result: Result{Err: errTest},
			want:   State{Faults: Faults{Unfinished: problem(errTest)}},
		},
		{
			name:   "a resume whose units do not come up is finished",
			step:   Step{Kind: Resume},
			result: Result{Err: errTest, Resumed: apply.Resumed{Finished: "one"}},
			want:   State{Faults: Faults{Jobs: problem(errTest)}},
		},
		{
			name:   "a resume that went back and is not finished",
			step:   Step{Kind: Resume},
			result: Result{Err: errUnfinished, Resumed: apply.Resumed{Finished: "one"}},
			want:   State{Faults: Faults{Unfinished: problem(errUnfinished)}},
		},
		{
			name: "a resume reports drift",
			step: Step{Kind: Resume},
			result: Result{Resumed: apply.Resumed{
				Repaired: []string{"/etc/a", "/etc/b"},
				Drift:    errTest,
			}},
			want: State{
				Facts:  status.Status{Drift: status.Drift{Repaired: 2, Last: "/etc/b", At: status.Duration(early)}},
				Drift:  Drift{Again: true},
				Faults: Faults{Drift: problem(errTest)},
			},
		},
		{
			name:  "a good change stays, with the units that are not well",
			state: State{Desired: Desired{AppliedDigest: "two"}},
			step: Step{Kind: Conclude, Have: two, Verdict: health.Verdict{
				Word:   health.Good,
				Unwell: []health.Unwell{{Unit: "a.service"}},
			}},
			want: State{
				Desired: Desired{AppliedDigest: "two"},
				Due:     Due{Prune: true},
				Starts:  Starts{Unwell: []health.Unwell{{Unit: "a.service"}}},
			},
		},
		{
			name:  "after a change of an operator the source is read",
			state: State{Desired: Desired{AppliedDigest: "one"}},
			step:  Step{Kind: Conclude, Have: two, Verdict: health.Verdict{Word: health.Good}},
			want:  State{Desired: Desired{AppliedDigest: "one"}, Due: Due{Prune: true, Read: true}},
		},
		{
			name:  "after a bad change the source is read",
			state: State{Desired: Desired{AppliedDigest: "two"}},
			step:  Step{Kind: Conclude, Have: two, Verdict: health.Verdict{Word: health.Bad}},
			want: State{
				Desired: Desired{AppliedDigest: "two"},
				Due:     Due{Prune: true, Read: true},
				Facts:   status.Status{TakenBack: &status.TakenBack{Generation: two.Name()}},
			},
		},
		{
			name: "a repair counts",
			state: State{
				Facts:  status.Status{Drift: status.Drift{Repaired: 3}},
				Faults: Faults{Drift: old},
			},
			step:   Step{Kind: Repair},
			result: Result{Paths: []string{"/etc/a"}},
			want: State{Facts: status.Status{Drift: status.Drift{
				Repaired: 4,
				Last:     "/etc/a",
				At:       status.Duration(early),
			}}},
		},
		{
			name:  "a path that could not be repaired is wrong until all are looked at again",
			state: State{Drift: Drift{Again: true}, Faults: Faults{Drift: old}},
			step:  Step{Kind: Repair},
			want:  State{Drift: Drift{Again: true}, Faults: Faults{Drift: old}},
		},
		{
			name:   "what answers is read",
			step:   Step{Kind: Probe},
			result: Result{Answers: true},
			want:   State{Due: Due{Read: true}},
		},
		{
			name:  "what does not answer is not read",
			state: State{Due: Due{Prune: true}},
			step:  Step{Kind: Probe},
			want:  State{Due: Due{Prune: true}},
		},
		{
			name:   "units that still do not start are owed",
			step:   Step{Kind: Start},
			result: Result{Owed: []string{"a.service"}, Err: errTest},
			want: State{
				Starts: Starts{
					Owed: []string{"a.service"},
					Wait: firstStart,
					Set:  true,
				},
				Faults: Faults{Jobs: problem(errTest)},
			},
		},
		{
			name:  "units that start are not owed any more",
			state: State{Starts: Starts{Owed: []string{"a.service"}}, Faults: Faults{Jobs: old}},
			step:  Step{Kind: Start},
		},
		{
			name: "an apply of the source keeps what waits",
			state: State{
				Change: Change{Applying: true},
				Facts:  status.Status{Waits: []config.Probe{{}}},
			},
			step:   Step{Kind: Apply},
			result: Result{Generation: two},
			want:   State{Due: Due{Prune: true}, Facts: status.Status{Waits: []config.Probe{{}}}},
		},
		{
			name: "an apply of a caller replaces what waits",
			state: State{
				Change: Change{Applying: true},
				Facts:  status.Status{Waits: []config.Probe{{}}},
			},
			step:   Step{Kind: Apply, Request: operator},
			result: Result{Generation: two},
			want:   State{Due: Due{Prune: true}, Change: Change{Caller: operator}},
		},
		{
			name:   "an apply whose units do not come up",
			step:   Step{Kind: Apply},
			result: Result{Generation: two, Err: errTest},
			want:   State{Due: Due{Prune: true}, Faults: Faults{Jobs: problem(errTest)}},
		},
		{
			name:   "an apply that is not finished",
			step:   Step{Kind: Apply},
			result: Result{Err: errUnfinished},
			want: State{
				Due:    Due{Prune: true},
				Faults: Faults{Unfinished: problem(errUnfinished)},
			},
		},
		{
			name:   "an apply of the source that is refused",
			state:  State{Change: Change{Applying: true}},
			step:   Step{Kind: Apply},
			result: Result{Err: errTest},
			want:   State{Faults: Faults{Desired: problem(errTest), Refusal: status.NotApplied}},
		},
		{
			name:   "an apply of a caller that is refused is the caller's affair",
			state:  State{Change: Change{Applying: true}},
			step:   Step{Kind: Apply, Request: &Request{}},
			result: Result{Err: errTest},
		},
		{
			name:   "after a rollback the source is read",
			step:   Step{Kind: Rollback},
			result: Result{Generation: two},
			want:   State{Due: Due{Prune: true, Read: true}},
		},
		{
			name:   "a rollback that is refused changes nothing",
			step:   Step{Kind: Rollback},
			result: Result{Err: errTest},
		},
		{
			name:   "a rollback that is not finished is completed first",
			step:   Step{Kind: Rollback},
			result: Result{Err: errUnfinished},
			want: State{
				Due:    Due{Prune: true},
				Faults: Faults{Unfinished: problem(errUnfinished)},
			},
		},
		{
			name: "a verification counts what it repaired",
			step: Step{Kind: Verify},
			result: Result{Verified: apply.Verified{Bad: []apply.Fault{
				{Path: "/etc/a", Repaired: true},
				{Path: "/etc/b"},
			}}},
			want: State{Facts: status.Status{Drift: status.Drift{
				Repaired: 1,
				Last:     "/etc/a",
				At:       status.Duration(early),
			}}},
		},
		{
			name:   "a reset that is done",
			state:  State{Change: Change{Applying: true}},
			step:   Step{Kind: RunReset},
			result: Result{Reset: &status.Reset{Done: true}},
			want: State{
				Reset: Reset{Ran: true},
				Facts: status.Status{Reset: &status.Reset{Done: true}},
			},
		},
		{
			name:   "a reset that is not complete",
			step:   Step{Kind: RunReset},
			result: Result{Reset: &status.Reset{}, Err: errTest},
			want: State{
				Reset: Reset{Ran: true, Err: errTest},
				Facts: status.Status{Reset: &status.Reset{}},
				Faults: Faults{Desired: &status.Error{
					Problem: "reset: of the test",
					Hint:    resetAgain,
				}},
			},
		},
		{
			name:   "a reset that is done, but for pods",
			step:   Step{Kind: RunReset},
			result: Result{Reset: &status.Reset{Done: true}, Err: errTest},
			want: State{
				Reset: Reset{Ran: true, Err: errTest},
				Facts: status.Status{
					Reset:    &status.Reset{Done: true},
					Warnings: []string{"reset: of the test"},
				},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := tt.state.After(tt.step, tt.result, early)

			if diff := cmp.Diff(tt.want, got, byValue); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAfterAReadOfTheSource(t *testing.T) {
	wrong := document.Errors{{
		File:    "f",
		Line:    3,
		Path:    "spec",
		Problem: "bad",
	}}

	before := State{
		Facts: status.Status{
			Missing: "no document",
			Offered: "v1",
			Notes:   []config.Note{{Reason: "old"}},
		},
		Desired: Desired{Version: "v1", AppliedDigest: "one"},
		Faults:  Faults{Desired: &status.Error{}, Refusal: status.Invalid},
	}

	for _, tt := range []struct {
		name    string
		result  Result
		faults  Faults
		missing string
		offered string
	}{
		{
			name:    "there is no document",
			result:  Result{Err: source.ErrAbsent},
			missing: "no document",
		},
		{
			name:   "the document is wrong",
			result: Result{Read: Reading{Version: "v2"}, Err: wrong},
			faults: Faults{
				Desired: &status.Error{
					Document: "f",
					Line:     3,
					Path:     "spec",
					Problem:  "bad",
					Code:     fault.DocumentInvalid,
				},
				Refusal: status.Invalid,
			},
			offered: "v2",
		},
		{
			name:   "the source does not answer",
			result: Result{Err: errTest},
			faults: Faults{Desired: problem(errTest), Refusal: status.Unavailable},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, _ := before.After(Step{Kind: Read}, tt.result, early)
			want := State{
				Facts:   status.Status{Missing: tt.missing, Offered: tt.offered},
				Desired: before.Desired,
				Faults:  tt.faults,
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("state (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDocumentOfTheSourceIsTakenOver(t *testing.T) {
	file, text := config.Text("x"), config.Text("unit")
	desired := config.Desired{
		Files:  []config.File{{Path: "/etc/a", Content: file}},
		Units:  []config.Unit{{Name: "a.service", Content: new("unit")}},
		Notes:  []config.Note{{Reason: "new"}},
		Update: &config.Update{},
	}
	probes := []config.Probe{{Path: "/etc/hosts.toml"}}
	told := []config.Note{{Reason: "told"}}

	reading := Reading{
		Version:    "v2",
		Desired:    desired,
		FullDigest: "full",
		Waits:      probes,
	}
	got, _ := State{Desired: Desired{Notes: told}}.After(
		Step{Kind: Read},
		Result{Read: reading},
		early,
	)
	want := Desired{
		Version:       "v2",
		FullDigest:    "full",
		AppliedDigest: desired.Digest(),
		Content:       map[string]config.Content{file.Digest: file, text.Digest: text},
		Notes:         desired.Notes,
	}
	if diff := cmp.Diff(want, got.Desired); diff != "" {
		t.Errorf("desired (-want +got):\n%s", diff)
	}
	if f := got.Facts; f.Offered != "v2" || len(f.Notes) != 1 || len(f.Waits) != 1 ||
		f.Update == nil {
		t.Errorf("facts %+v", f)
	}
}

func TestDocumentOfACallerIsNotTheSources(t *testing.T) {
	before := State{Desired: Desired{Version: "v1"}, Faults: Faults{Desired: &status.Error{}}}
	reading := Reading{Version: "v2", FullDigest: "full"}
	got, _ := before.After(Step{Kind: Read, Request: operator}, Result{Read: reading}, early)
	if diff := cmp.Diff(before, got); diff != "" {
		t.Errorf("state (-want +got):\n%s", diff)
	}
}

func TestConfigurationOfTheSourceIsApplied(t *testing.T) {
	held := apply.Held{Digest: "two", Why: "of the test"}
	byOperator := held
	byOperator.Operator = true
	for _, tt := range []struct {
		name  string
		state func(s *State)
		held  *apply.Held
		err   error
		want  bool
		fault status.Refusal
		shown bool
	}{
		{name: "if the node is something else", want: true},
		{
			name:  "not if the node is that",
			state: func(s *State) { s.Desired.AppliedDigest = "one" },
		},
		{
			name: "if another system runs, whose units may be enabled otherwise",
			want: true,
			state: func(s *State) {
				s.Desired.AppliedDigest = "one"
				s.Facts.ImageVersion = "2.0.0"
			},
		},
		{name: "not if an operator has applied another", held: &byOperator, shown: true},
		{name: "not if it was reverted", held: &held, fault: status.Reverted},
		{name: "not if it is unknown whether it is held", err: errTest, fault: status.NotApplied},
		{name: "not while an operator tries another", state: func(s *State) {
			s.Change.Pending = &apply.Pending{Journal: generation.Journal{Try: &generation.Try{}}}
		}},
		{
			name: "while a change is on trial that no operator tries",
			want: true,
			state: func(s *State) {
				s.Change.Pending = &apply.Pending{}
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := running()
			s.Desired.AppliedDigest = "two"
			s.Facts.Held = &status.Held{Digest: "of before"}
			if tt.state != nil {
				tt.state(&s)
			}

			got, yes := s.applies(tt.held, tt.err)
			if yes != tt.want || got.Faults.Refusal != tt.fault ||
				(got.Faults.Desired != nil) != (tt.fault != "") {
				t.Errorf("%t, faults %+v; want %t, %q", yes, got.Faults, tt.want, tt.fault)
			}
			if (got.Facts.Held != nil) != tt.shown {
				t.Errorf("shows %+v", got.Facts.Held)
			}
		})
	}
}

func TestGenerationThatChangesIsObservedAgain(t *testing.T) {
	s := running()
	s.Facts.AppliedAt = status.Duration(early)
	s.Starts = Starts{Well: []string{"a.service"}, Unwell: []health.Unwell{{Unit: "b.service"}}}
	two := generation.Manifest{Number: 2, Digest: "two"}
	pending := &apply.Pending{}
	pending.Well = []string{"c.service"}

	same := s.observed(Observation{Current: s.Current.Generation})
	if diff := cmp.Diff(s, same); diff != "" {
		t.Errorf("the same generation (-want +got):\n%s", diff)
	}

	got := s.observed(Observation{
		Current: two,
		Pending: pending,
		Owed:    []string{"d.service"},
	})
	if got.Current.Observed || got.Facts.AppliedAt != 0 || got.Change.Pending != pending {
		t.Errorf("another generation: %+v", got)
	}
	want := Starts{Well: []string{"c.service"}, Owed: []string{"d.service"}}
	if diff := cmp.Diff(want, got.Starts); diff != "" {
		t.Errorf("its units (-want +got):\n%s", diff)
	}

	// An earlier run of the agent in this boot has said when it was applied.
	first := State{Facts: status.Status{AppliedAt: status.Duration(early)}}.
		observed(Observation{Current: two})
	if time.Duration(first.Facts.AppliedAt) != early {
		t.Error("it is applied once more after the agent was started again")
	}

	for _, held := range []string{two.Digest, "other"} {
		s := State{Facts: status.Status{Held: &status.Held{Digest: held}}}
		isHeld := s.observed(Observation{Current: two}).Facts.Held != nil
		if want := held != two.Digest; isHeld != want {
			t.Errorf("%s runs, and %s is held: %t, want %t", two.Digest, held, isHeld, want)
		}
	}
}

func TestPathsToLookAtAfterAChange(t *testing.T) {
	entry := func(name, digest string) generation.Entry {
		return generation.Entry{Path: name, Kind: generation.KindFile, Digest: digest}
	}

	before := generation.Manifest{Digest: "one", Entries: []generation.Entry{
		entry("/var/lib/changes", "1"), entry("/var/lib/stays", "1"),
	}}

	current := generation.Manifest{Digest: "two", Entries: []generation.Entry{
		entry("/var/lib/changes", "2"), entry("/var/lib/stays", "1"),
	}}

	everything := []string{"/var/lib/changes", "/var/lib/stays"}
	for _, tt := range []struct {
		name    string
		drift   Drift
		watched bool
		want    []string
		guarded bool
	}{
		{"all, if none was watched", Drift{}, true, everything, true},
		{
			"those that changed, if all were watched",
			Drift{Guarded: true},
			true,
			everything[:1],
			true,
		},
		{"all, if the new ones cannot be watched", Drift{Guarded: true}, false, everything, false},
		{"all, once the watch has ended", Drift{Blind: true}, true, everything, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := State{
				Drift:   tt.drift,
				Current: Current{Generation: current},
			}.guard(before, tt.watched)
			if !slices.Equal(s.Drift.Touched, tt.want) || s.Drift.Guarded != tt.guarded {
				t.Errorf("%q, guarded %t", s.Drift.Touched, s.Drift.Guarded)
			}
		})
	}
}

func TestTouchedPathsAreLookedAtOnce(t *testing.T) {
	s := State{}.touch([]string{"/etc/b", "/etc/a"})
	again := s.touch([]string{"/etc/b", "/etc/c"})
	if !slices.Equal(again.Drift.Touched, []string{"/etc/a", "/etc/b", "/etc/c"}) ||
		len(s.Drift.Touched) != 2 {
		t.Errorf("%q, then %q", s.Drift.Touched, again.Drift.Touched)
	}
}

func TestAlarmMakesAStepDue(t *testing.T) {
	for _, tt := range []struct {
		which alarm
		want  Due
	}{
		{readAlarm, Due{Resume: true, Read: true}},
		{resumeAlarm, Due{Resume: true, Read: true}},
		{probeAlarm, Due{Probe: true}},
		{startAlarm, Due{Start: true}},
		{observeAlarm, Due{}},
		{idleAlarm, Due{}},
	} {
		s, _ := State{Faults: Faults{Unfinished: &status.Error{}}}.ring(tt.which, early)
		if s.Due != tt.want {
			t.Errorf("alarm %d: %+v, want %+v", tt.which, s.Due, tt.want)
		}
	}

	if s, _ := (State{}).ring(readAlarm, early); s.Due != (Due{Read: true}) {
		t.Errorf("with nothing unfinished: %+v", s.Due)
	}
	if s, _ := (State{Drift: Drift{Again: true}}).ring(repairAlarm, early); s.Drift.Again {
		t.Error("a look at all paths is still to come, as it begins")
	}
}

func TestWarningIsShownOnce(t *testing.T) {
	s := State{}.warn("a").warn("b").warn("a")
	if !slices.Equal(s.Facts.Warnings, []string{"a", "b"}) {
		t.Errorf("%q", s.Facts.Warnings)
	}
}

// TestUntilVerdict: at once would be a busy loop, and much later would miss it.
func TestUntilVerdict(t *testing.T) {
	for next, want := range map[time.Duration]time.Duration{
		0:                      quietPeriod,
		early:                  quietPeriod,
		early + 10*time.Second: 10 * time.Second,
		late:                   time.Minute,
	} {
		if got := untilVerdict(health.Verdict{Next: next}, early); got != want {
			t.Errorf("until %s: %s, want %s", next, got, want)
		}
	}
}
