package loop

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/storage"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/hint/fault"
)

var (
	one = generation.Manifest{Number: 1, Digest: "0123456789ab"}
	two = generation.Manifest{Number: 2, Digest: "ba9876543210"}
)

// name is the field of a generation in a line of the log.
func name(m generation.Manifest) zap.Field { return zap.String("generation", m.Name()) }

// checkEffects compares effects.
func checkEffects(t *testing.T, got, want []Effect) {
	t.Helper()
	if diff := cmp.Diff(want, got, byValue); diff != "" {
		t.Errorf("effects (-want +got):\n%s", diff)
	}
}

// on has a caller wait for the verdict on the change to generation two.
func on(caller *Request) State {
	return State{
		Current: Current{Generation: two},
		Desired: Desired{AppliedDigest: two.Digest},
		Change:  Change{Caller: caller, Began: time.Second},
	}
}

func TestEffectsOfAStep(t *testing.T) {
	before := &Request{}
	restart := &Request{Ask: askRestart{Units: []string{"a.service"}, Any: true}}
	now := func(m generation.Manifest) Observation { return Observation{Current: m} }
	unstarted := ClearAlarm{Which: startAlarm}
	replaced := Answer{Request: before, Response: response{err: control.ErrBusy}}
	answered := func(o control.Outcome) Answer {
		return Answer{Request: operator, Response: response{outcome: o}}
	}
	failed := func(err error) Answer {
		return Answer{Request: operator, Response: response{err: err}}
	}
	runs := func(m generation.Manifest) []Effect {
		return []Effect{unstarted, info("the node runs", name(m)), ObserveUnits, Watch{}}
	}
	isReset := State{Facts: status.Status{Reset: &status.Reset{Done: true}}}

	for _, tt := range []struct {
		name   string
		state  State
		step   Step
		result Result
		want   []Effect
	}{
		{
			name: "a change is judged by its units",
			step: Step{Kind: Judge},
			want: []Effect{ObserveUnits},
		},
		{
			name: "an idle node publishes that once",
			step: Step{Kind: Idle},
			want: []Effect{Show{}},
		},
		{
			name:  "an idle node that is published does nothing",
			state: State{Published: Published{Any: true}},
			step:  Step{Kind: Idle},
		},
		{
			name:   "a resume that has finished an apply is judged by the units",
			step:   Step{Kind: Resume},
			result: Result{Resumed: apply.Resumed{Finished: two.Name()}, Node: now(two)},
			want: []Effect{
				info("finished an apply that was cut off", name(two)),
				unstarted,
				ObserveUnits,
				Watch{},
			},
		},
		{
			name:   "a resume that fails is tried again, before a read that observes",
			state:  State{Due: Due{Read: true}},
			step:   Step{Kind: Resume},
			result: Result{Err: errTest},
			want: []Effect{
				failure("resume", zap.Error(errTest)),
				SetAlarm{Which: resumeAlarm, In: retryDelay},
				unstarted,
				Watch{},
			},
		},
		{
			name:   "a good change counts, and its caller learns it after it is published",
			state:  on(operator),
			step:   Step{Kind: Conclude, Have: two, Verdict: health.Verdict{Word: health.Good}},
			result: Result{Node: now(two)},
			want: append(runs(two),
				Proven{},
				Count{Outcome: apply.Applied, Began: time.Second},
				answered(control.Outcome{
					Result:     control.Applied,
					Generation: two.Name(),
					Digest:     two.Digest,
				})),
		},
		{
			name:  "a change that stays with a unit that is not well is reported",
			state: on(nil),
			step: Step{Kind: Conclude, Have: two, Verdict: health.Verdict{
				Word:   health.Good,
				Reason: "ill",
				Unwell: []health.Unwell{{Unit: "a.service"}},
			}},
			result: Result{Node: now(two)},
			want: append(append([]Effect{
				warning("the change stays, and not all of its units are well",
					zap.String("reason", "ill")),
				Event{Reason: "UnitNotWell", Message: "ill"},
			}, runs(two)...), Proven{}, Count{Outcome: apply.Applied, Began: time.Second}),
		},
		{
			name:  "a bad change is taken back, and its caller learns it",
			state: on(operator),
			step: Step{Kind: Conclude, Have: two, Verdict: health.Verdict{
				Word:   health.Bad,
				Reason: "ill",
			}},
			result: Result{Node: now(one)},
			want: append(runs(one),
				Count{Outcome: apply.Reverted, Began: time.Second},
				answered(control.Outcome{
					Result:     control.Reverted,
					Generation: one.Name(),
					From:       two.Name(),
					Digest:     one.Digest,
					Reason:     "ill",
				})),
		},
		{
			name:   "a revert that is not finished is tried again, and its caller learns that",
			state:  on(operator),
			step:   Step{Kind: Conclude, Have: two, Verdict: health.Verdict{Word: health.Bad}},
			result: Result{Err: errUnfinished, Node: now(two)},
			want: []Effect{
				unstarted,
				failure("apply", zap.Error(errUnfinished)),
				SetAlarm{Which: resumeAlarm, In: retryDelay},
				ObserveUnits,
				Watch{},
				failed(errUnfinished),
			},
		},
		{
			name:   "a repair is reported",
			step:   Step{Kind: Repair},
			result: Result{Paths: []string{"/etc/a"}},
			want: []Effect{
				warning("repaired what something else had changed",
					zap.Strings("paths", []string{"/etc/a"})),
				Event{
					Reason:  "FileMismatch",
					Message: "repaired what something else had changed: /etc/a",
				},
				ObserveUnits,
			},
		},
		{
			name: "a path that is as it should be is no reason to observe",
			step: Step{Kind: Repair},
		},
		{
			name:   "a path that cannot be repaired is looked at again",
			step:   Step{Kind: Repair},
			result: Result{Err: errTest},
			want: []Effect{
				failure("repair", zap.Error(errTest)),
				SetAlarm{Which: repairAlarm, In: retryDelay},
				ObserveUnits,
			},
		},
		{
			name:   "without a document the node keeps what it has",
			step:   Step{Kind: Read},
			result: Result{Err: source.ErrAbsent},
			want: []Effect{
				info("no configuration at the source: the node keeps what it has",
					zap.Error(source.ErrAbsent)),
				Show{},
			},
		},
		{
			name:   "what is fetched is read again",
			step:   Step{Kind: Read},
			result: Result{Err: source.ErrFetching},
			want:   []Effect{SetAlarm{Which: readAlarm, In: retryDelay}, Show{}},
		},
		{
			name:   "what cannot be had is read again",
			step:   Step{Kind: Read},
			result: Result{Err: errTest},
			want: []Effect{
				failure("the configuration cannot be had", zap.Error(errTest)),
				SetAlarm{Which: readAlarm, In: readDelay},
				Show{},
			},
		},
		{
			name: "a wrong document is logged once, and stays wrong",
			state: State{Published: Published{Last: status.Status{
				Error: &status.Error{Problem: "bad"},
			}}},
			step:   Step{Kind: Read},
			result: Result{Err: document.Errors{{Problem: "bad"}}},
			want:   []Effect{Show{}},
		},
		{
			name: "what the source says is applied if the kernel has threads",
			step: Step{Kind: Read},
			result: Result{
				Holds: Holds{Released: errTest},
				Read: Reading{
					Name:       "f",
					FullDigest: "full",
					Waits:      []config.Probe{{}},
					Desired:    config.Desired{Notes: []config.Note{{Reason: "R", Problem: "p"}}},
				},
			},
			want: []Effect{
				Warn{What: "release the source's configuration", Err: errTest},
				SetAlarm{Which: probeAlarm, In: probeDelay},
				warning("the document is followed, but not to the letter",
					zap.String("reason", "R"),
					zap.Stringer("note", config.Note{Reason: "R", Problem: "p"}),
					zap.String("hint", "")),
				Event{Reason: "R", Message: config.Note{Reason: "R", Problem: "p"}.String()},
				TryThreads{Apply: Step{Kind: Apply, Apply: apply.Request{
					Desired: config.Desired{Notes: []config.Note{{Reason: "R", Problem: "p"}}},
					Digest:  config.Desired{}.Digest(),
					Source:  "f",
				}}},
			},
		},
		{
			name:   "what is held is not applied",
			step:   Step{Kind: Read},
			result: Result{Read: Reading{FullDigest: "full"}, Holds: Holds{Held: &apply.Held{}}},
			want:   []Effect{Show{}},
		},
		{
			name:   "what a caller asks for is applied",
			step:   Step{Kind: Read, Request: operator},
			result: Result{Read: Reading{Name: "f", FullDigest: "full"}, Holds: Holds{Source: "s"}},
			want: []Effect{Begin{Step: Step{
				Kind:    Apply,
				Request: operator,
				Hold:    "s",
				Apply:   apply.Request{Digest: "full", Source: "f", Try: time.Minute},
			}}},
		},
		{
			name:   "a caller learns that the node runs it already",
			state:  on(nil),
			step:   Step{Kind: Read, Request: operator},
			result: Result{Read: Reading{FullDigest: two.Digest}},
			want: []Effect{answered(control.Outcome{
				Result:     control.Unchanged,
				Generation: two.Name(),
				Digest:     two.Digest,
			})},
		},
		{
			name:   "a caller learns that its document is wrong",
			step:   Step{Kind: Read, Request: operator},
			result: Result{Err: errTest},
			want:   []Effect{failed(errTest)},
		},
		{
			name:   "what does not answer is probed again",
			state:  State{Facts: status.Status{Waits: []config.Probe{{}}}},
			step:   Step{Kind: Probe},
			want:   []Effect{SetAlarm{Which: probeAlarm, In: probeDelay}},
			result: Result{},
		},
		{
			name:   "units that still do not start are started later",
			step:   Step{Kind: Start},
			result: Result{Owed: []string{"a.service"}, Err: errTest},
			want: []Effect{
				warning("units did not come up",
					zap.Strings("units", []string{"a.service"}),
					zap.Error(errTest)),
				SetAlarm{Which: startAlarm, In: firstStart},
				ObserveUnits,
			},
		},
		{
			name:  "units that start have no alarm any more",
			state: State{Starts: Starts{Owed: []string{"a.service"}}},
			step:  Step{Kind: Start},
			want:  []Effect{unstarted, ObserveUnits},
		},
		{
			name:   "memory is freed after a change",
			step:   Step{Kind: Prune},
			result: Result{Err: errTest},
			want: []Effect{
				SetAlarm{Which: idleAlarm, In: idleDelay},
				Warn{What: "delete old generations", Err: errTest},
			},
		},
		{
			name:   "an apply has the caller before it learn that there is no verdict",
			state:  on(before),
			step:   Step{Kind: Apply, Request: operator},
			result: Result{Generation: one, Node: now(one)},
			want:   append([]Effect{replaced}, runs(one)...),
		},
		{
			name:   "an apply that is refused takes back what was prepared and held",
			step:   Step{Kind: Apply, Request: operator, Hold: "s"},
			result: Result{Err: errTest},
			want: []Effect{
				failure("apply", zap.Error(errTest)),
				failed(errTest),
				Unprepare{},
				Release{Digest: "s"},
				SetAlarm{Which: resumeAlarm, In: retryDelay},
				SetAlarm{Which: aliveAlarm},
				unstarted,
				ObserveUnits,
				Watch{},
			},
		},
		{
			name:  "a rollback is answered after it is published",
			state: on(before),
			step:  Step{Kind: Rollback, Request: operator, Have: two},
			result: Result{Generation: one, Node: Observation{
				Current:  one,
				Problems: []Warn{{What: "read the journal", Err: errTest}},
			}},
			want: append(append([]Effect{
				replaced,
				Warn{What: "read the journal", Err: errTest},
			}, runs(one)...), answered(control.Outcome{
				Result:     control.Reverted,
				Generation: one.Name(),
				From:       two.Name(),
				Digest:     one.Digest,
			})),
		},
		{
			name:   "a generation that is applied again has its caller wait for the verdict",
			state:  on(before),
			step:   Step{Kind: Reapply, Request: operator},
			result: Result{Generation: one, Node: now(one), Holds: Holds{Err: errTest}},
			want: append([]Effect{
				Warn{What: "hold the source's configuration", Err: errTest},
				replaced,
			}, runs(one)...),
		},
		{
			name:   "a generation that cannot be applied again changes nothing",
			step:   Step{Kind: Reapply, Request: operator},
			result: Result{Err: errTest},
			want:   []Effect{failed(errTest), ObserveUnits},
		},
		{
			name:   "a change that is confirmed stays",
			step:   Step{Kind: Confirm, Request: operator},
			result: Result{Generation: two, Node: now(two)},
			want: []Effect{
				unstarted,
				ObserveUnits,
				Watch{},
				answered(control.Outcome{
					Result:     control.Confirmed,
					Generation: two.Name(),
					Digest:     two.Digest,
				}),
			},
		},
		{
			name:   "a verification is answered before it is published",
			step:   Step{Kind: Verify, Request: operator},
			result: Result{Verified: apply.Verified{Checked: 1}, Err: errTest},
			want: []Effect{
				Answer{Request: operator, Response: response{
					report: control.VerifyReport{Checked: 1},
					err:    errTest,
				}},
				ObserveUnits,
			},
		},
		{
			name: "a restart is answered before it is published",
			step: Step{Kind: Restart, Request: restart, Have: two},
			want: []Effect{
				Answer{Request: restart, Response: response{outcome: control.Outcome{
					Result:     control.Restarted,
					Generation: two.Name(),
					Digest:     two.Digest,
				}}},
				ObserveUnits,
			},
		},
		{
			name:   "a unit that does not restart is observed, too",
			step:   Step{Kind: Restart, Request: operator, Have: two},
			result: Result{Err: errTest},
			want:   []Effect{failed(errTest), ObserveUnits},
		},
		{
			name: "a reset that has begun ends the agent, after the caller knows",
			step: Step{Kind: BeginReset, Request: operator},
			want: []Effect{
				warning("reset: the agent starts again for it"),
				failed(ErrReset),
				End{Why: ErrReset},
			},
		},
		{
			name:   "a reset is published before its caller knows",
			step:   Step{Kind: RunReset, Request: operator},
			result: Result{Reset: &status.Reset{Done: true}},
			want: []Effect{
				info("the node is reset"),
				Show{},
				answered(control.Outcome{Result: control.Reset}),
			},
		},
		{
			name:   "a reset ends by itself with another machine.yaml",
			step:   Step{Kind: RunReset, Request: operator},
			result: Result{Reset: &status.Reset{Done: true}, ResetIsOver: true},
			want: []Effect{
				info("the node is reset"),
				Show{},
				Begin{Step: Step{Kind: EndReset, Request: operator, Superseded: true}},
			},
		},
		{
			name:  "the first caller after a reset gets its outcome",
			state: isReset,
			step:  Step{Kind: AnswerReset, Request: operator},
			want:  []Effect{answered(control.Outcome{Result: control.Reset})},
		},
		{
			name:  "the end of a reset ends the agent",
			state: isReset,
			step:  Step{Kind: EndReset, Request: operator},
			want: []Effect{
				info("the reset is over: the agent starts again"),
				End{Why: ErrFollows},
				failed(ErrFollows),
			},
		},
		{
			name:   "a reset that cannot be ended by itself is over all the same",
			state:  isReset,
			step:   Step{Kind: EndReset, Request: operator, Superseded: true},
			result: Result{Err: errTest},
			want: []Effect{
				Warn{What: "another machine.yaml", Err: errTest},
				answered(control.Outcome{Result: control.Reset}),
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, got := tt.state.After(tt.step, tt.result, early)
			checkEffects(t, got, tt.want)
		})
	}
}

func TestEffectsOfTheBeginOfAStep(t *testing.T) {
	pending := on(nil)
	pending.Change.Pending = &apply.Pending{}
	applying := []Effect{
		info("applying", zap.String("digest", "d"), zap.String("source", "f")),
		ClearAlarm{Which: startAlarm},
		Publish{},
	}
	bad := Step{Kind: Conclude, Have: two, Verdict: health.Verdict{Word: health.Bad, Reason: "ill"}}
	step := Step{Kind: Apply, Apply: apply.Request{Digest: "d", Source: "f"}}

	for _, tt := range []struct {
		name  string
		state State
		step  Step
		want  []Effect
	}{
		{"an apply is published", State{}, step, applying},
		{
			"an apply replaces the change on trial",
			pending,
			step,
			append(applying, Count{Outcome: apply.Replaced, Began: time.Second}),
		},
		{"a bad verdict is logged", State{}, bad, []Effect{
			warning("the change made the node worse", name(two), zap.String("reason", "ill")),
		}},
		{"a reset is published", State{Facts: status.Status{Reset: &status.Reset{}}},
			Step{Kind: RunReset}, []Effect{warning("reset", zap.Time("asked", time.Time{})), Publish{}}},
		{"a read is no news", State{}, Step{Kind: Read}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, got := tt.state.Begin(tt.step, early)
			checkEffects(t, got, tt.want)
		})
	}
}

func TestEffectsOfAnAlarm(t *testing.T) {
	again := SetAlarm{Which: aliveAlarm, In: aliveInterval}
	for _, tt := range []struct {
		which alarm
		state State
		now   time.Duration
		want  []Effect
	}{
		{readAlarm, State{}, early, nil},
		{observeAlarm, State{}, early, []Effect{ObserveUnits}},
		{jobAlarm, State{Busy: true}, early, []Effect{ObserveJobs}},
		{jobAlarm, State{}, early, nil},
		{idleAlarm, State{}, early, []Effect{FreeMemory{}}},
		{aliveAlarm, State{}, 0, []Effect{Alive{}, again, ObserveStorage, ObserveLimits}},
		{aliveAlarm, State{}, clockDelay,
			[]Effect{Alive{}, again, ObserveStorage, ObserveLimits, ObserveClock}},
	} {
		_, got := tt.state.ring(tt.which, tt.now)
		checkEffects(t, got, tt.want)
	}
}

// TestEffectsOfAnObservation has each observation in a state that it changes.
func TestEffectsOfAnObservation(t *testing.T) {
	trial := on(operator)
	trial.Change.Pending = &apply.Pending{Watched: true}
	trial.Change.Pending.Try = &generation.Try{}
	published := State{Published: Published{Any: true}}
	until := SetAlarm{Which: observeAlarm, In: quietPeriod}
	kernel := fault.With(errTest, fault.LimitReached)

	effectsOf := func(_ State, effects []Effect) []Effect { return effects }
	for name, tt := range map[string]struct{ got, want []Effect }{
		"units of a change on trial are judged": {
			effectsOf(unitsObserved(trial, nil, nil, early, steady)),
			[]Effect{ObserveVerdict, Show{}},
		},
		"units that cannot be observed are a warning": {
			effectsOf(unitsObserved(trial, nil, errTest, early, steady)),
			[]Effect{Warn{What: "observe units", Err: errTest}, Show{}},
		},
		"a change that waits to be confirmed is answered before it is published": {
			effectsOf(judged(trial, health.Verdict{Word: health.Confirm}, nil, early)),
			[]Effect{
				Answer{Request: operator, Response: response{outcome: control.Outcome{
					Result:     control.Trying,
					Generation: two.Name(),
					Digest:     two.Digest,
				}}},
				until,
			},
		},
		"a verdict that cannot be had is asked for again": {
			effectsOf(judged(trial, health.Verdict{}, errTest, early)),
			[]Effect{
				Warn{What: "judge the change", Err: errTest},
				SetAlarm{Which: observeAlarm, In: readDelay},
			},
		},
		"units are observed before the first publication": {
			effectsOf(show(State{}, early, limit)),
			[]Effect{ObserveUnits},
		},
		"a configuration that counts as applied is logged": {
			effectsOf(show(State{Current: Current{Generation: two, Observed: true}}, early, limit)),
			[]Effect{info("the configuration is applied", zap.String("generation", two.Name())),
				Publish{}},
		},
		"a job that takes long is published, and looked at again": {
			effectsOf(jobsObserved(State{}, slowJobs{
				units: []string{"a.service"},
				first: unit.State{Name: "a.service"},
			}, early, limit)),
			[]Effect{SetAlarm{Which: jobAlarm, In: jobInterval}, Publish{}},
		},
		"no job is published": {
			effectsOf(jobsObserved(State{}, slowJobs{}, early, limit)),
			[]Effect{Publish{}},
		},
		"a limit that explains a warning is looked at": {
			effectsOf(warned(State{}, Warn{What: "watch", Err: kernel}, nil)),
			[]Effect{SetAlarm{Which: aliveAlarm}},
		},
		"an apply begins if the kernel has threads": {
			effectsOf(threadsTried(State{}, Step{Kind: Apply}, limits.Usage{})),
			[]Effect{Begin{Step: Step{Kind: Apply}}},
		},
		"an apply waits for threads": {
			effectsOf(threadsTried(State{}, Step{}, limits.Usage{Refused: true}))[1:],
			[]Effect{
				SetAlarm{Which: resumeAlarm, In: retryDelay},
				SetAlarm{Which: aliveAlarm},
				Show{},
			},
		},
		"a status that could not be written is written later": {
			effectsOf(storageObserved(State{Published: Published{Any: true, Unwritten: true}},
				[]storage.Usage{})),
			[]Effect{Show{}},
		},
		"a limit that is used up is looked at soon": {
			effectsOf(limitsObserved(published,
				[]limits.Usage{{Name: limits.Watches, Refused: true}}))[:1],
			[]Effect{SetAlarm{Which: aliveAlarm, In: limitInterval}},
		},
		"a clock that is right again is published": {
			effectsOf(clockObserved(State{Facts: status.Status{Clock: &status.WrongClock{}}}, nil)),
			[]Effect{Show{}},
		},
		"a disk that fails is reported": {
			effectsOf(disksRead(State{}, []status.Disk{{Code: fault.DiskFailing, Problem: "sda fails"}})),
			[]Effect{
				warning("disk", zap.String("problem", "sda fails")),
				Event{Reason: "DiskFailing", Message: "sda fails"},
				Show{},
			},
		},
		"a shell is published beside what was published": {
			effectsOf(shellOpened(published, shell{tty: "ttyS1"})),
			[]Effect{warning("debug shell open", zap.String("tty", "ttyS1")), ShowShells{}},
		},
		"paths that cannot be watched are a warning": {
			effectsOf(watched(State{}, errTest)),
			[]Effect{Warn{What: "watch managed paths", Err: errTest}},
		},
		"a watch that is lost is a warning, and observed": {
			effectsOf(touched(State{Drift: Drift{Guarded: true}}, nil, errTest)),
			[]Effect{Warn{What: "watch managed paths", Err: errTest}, until},
		},
		"a request that is refused is answered": {
			admit(isInReset(), operator),
			[]Effect{Answer{Request: operator, Response: response{err: ErrInReset}}},
		},
	} {
		t.Run(name, func(t *testing.T) { checkEffects(t, tt.got, tt.want) })
	}
}

// isInReset is a node in a reset.
func isInReset() State { return State{Facts: status.Status{Reset: &status.Reset{}}} }
