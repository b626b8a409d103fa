package health

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/unit"
)

// The states of units in these tests.
var (
	active   = unit.State{Active: "active", Sub: "running"}
	inactive = unit.State{Active: "inactive", Sub: "dead", Result: "success"}
	done     = unit.State{
		Active: "inactive",
		Sub:    "dead",
		Type:   "oneshot",
		Result: "success",
	}
	skipped    = unit.State{Active: "inactive", Sub: "dead", Skipped: true}
	activating = unit.State{Active: "activating", Sub: "start", Job: true}
	failed     = unit.State{
		Active:   "failed",
		Sub:      "failed",
		Result:   "exit-code",
		ExitCode: 3,
	}
	looping = unit.State{Active: "activating", Sub: "auto-restart", Result: "exit-code"}
)

func named(name string, s unit.State) unit.State { s.Name = name; return s }

func slow(limit time.Duration, s unit.State) unit.State { s.StartLimit = limit; return s }

func restarted(n int, s unit.State) unit.State { s.Restarts = n; return s }

func TestWell(t *testing.T) {
	up := generation.Unit{}
	stopped := generation.Unit{Stopped: true}
	onDemand := generation.Unit{OnDemand: true}
	disabled := generation.Unit{Stopped: true, OnDemand: true}
	tests := []struct {
		name string
		want generation.Unit
		is   unit.State
		how  string // "" for well
	}{
		{"up and wanted", up, active, ""},
		{"a oneshot that is done", up, done, ""},
		{"skipped by a condition", up, skipped, ""},
		{"reloading", up, unit.State{Active: "reloading", Sub: "reload"}, ""},
		{"on its way", up, activating, "unit a.service is activating/start"},
		{
			"up, with a job still to come",
			up,
			unit.State{Active: "active", Sub: "running", Job: true},
			"unit a.service is active/running",
		},
		{
			"a oneshot that was killed",
			up,
			unit.State{
				Active: "inactive",
				Sub:    "dead",
				Type:   "oneshot",
				Result: "signal",
			},
			"unit a.service is inactive/dead",
		},
		{"down and wanted", up, inactive, "unit a.service is inactive/dead"},
		{"failed", up, failed, "unit a.service failed: exit-code, exit code 3"},
		{"waiting to be restarted", up, looping, "unit a.service is activating/auto-restart"},
		{"down as desired", stopped, inactive, ""},
		{"failed, and desired down", stopped, failed, ""},
		{"up, and desired down", stopped, active, "unit a.service is active/running"},
		{"on demand and down", onDemand, inactive, ""},
		{"on demand and up", onDemand, active, ""},
		{"on demand and starting", onDemand, activating, ""},
		{"on demand and failed", onDemand, failed, "unit a.service failed: exit-code, exit code 3"},
		{"on demand, disabled, and up", disabled, active, ""},
		{"on demand, disabled, and failed", disabled, failed, ""},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			well, how := Well(tt.want, named("a.service", tt.is))
			if diff := cmp.Diff(tt.how, how); diff != "" || well != (tt.how == "") {
				t.Errorf("well %v, how (-want +got):\n%s", well, diff)
			}
		})
	}
}

func TestBefore(t *testing.T) {
	listed := generation.Manifest{Units: []generation.Unit{{Name: "a.service"}}}
	stopped := generation.Manifest{Units: []generation.Unit{{Name: "a.service", Stopped: true}}}
	onDemand := generation.Manifest{Units: []generation.Unit{{Name: "a.service", OnDemand: true}}}

	// Both times are CLOCK_MONOTONIC, as systemd's are: a machine that was
	// suspended for a day between the last restart and now adds nothing.
	const now = time.Hour
	ago := func(d time.Duration, s unit.State) unit.State { s.Since = now - d; return s }
	tests := []struct {
		name         string
		have         generation.Manifest
		is           unit.State
		well, broken bool
	}{
		{"up", listed, active, true, false},
		{"up, and not listed before", generation.Manifest{}, active, true, false},
		{
			"up with a job to come, and not listed before",
			generation.Manifest{},
			unit.State{Active: "active", Sub: "running", Job: true},
			false,
			false,
		},
		{
			"a oneshot that is done, and not listed before",
			generation.Manifest{},
			done,
			false,
			false,
		},
		{"failed", listed, failed, false, true},
		{"failed, and not listed before", generation.Manifest{}, failed, false, true},
		{"down", listed, inactive, false, true},
		{"down, and not listed before", generation.Manifest{}, inactive, false, false},
		{"down as desired", stopped, inactive, false, false},
		{"on demand and down", onDemand, inactive, true, false},
		{"on demand and failed", onDemand, failed, false, true},
		{"a oneshot that is done", listed, done, true, false},
		{"on its way", listed, activating, false, false},
		{"waiting to be restarted", listed, looping, false, true},
		{
			"up for a moment, and restarted once",
			listed,
			ago(10*time.Second, restarted(1, active)),
			false,
			false,
		},
		{
			"restarted once, just after the clock was read",
			listed,
			ago(-time.Second, restarted(1, active)),
			false,
			false,
		},
		{
			"up for a moment, and restarted three times",
			listed,
			ago(10*time.Second, restarted(3, active)),
			false,
			true,
		},
		{
			"restarted three times, and up ever since",
			listed,
			ago(2*time.Minute, restarted(3, active)),
			true,
			false,
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			well, broken := Before(tt.have, []unit.State{named("a.service", tt.is)}, now)
			if len(well) > 0 != tt.well || len(broken) > 0 != tt.broken {
				t.Errorf("well %v, broken %v", well, broken)
			}
		})
	}

	if well, broken := Before(listed, nil, now); well != nil || broken != nil {
		t.Errorf("a unit that was not observed: well %v, broken %v", well, broken)
	}
}

func TestCounts(t *testing.T) {
	plain := generation.Unit{Name: "a.service"}
	essential := generation.Unit{Name: "a.service", Essential: true}
	name := []string{"a.service"}
	other := []string{"b.service"}
	tests := []struct {
		name         string
		unit         generation.Unit
		well, broken []string
		want         bool
	}{
		{"well before", plain, name, nil, true},
		{"broken before", plain, nil, name, false},
		{"new", plain, other, other, false},
		{"new, and the kubelet needs it", essential, nil, nil, true},
		{"broken before, and the kubelet needs it", essential, nil, name, false},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := Counts(tt.unit, tt.well, tt.broken); got != tt.want {
				t.Errorf("counts: %v", got)
			}
		})
	}
}

// look is the state of unit a.service at a time since the change was done.
type look struct {
	at   time.Duration
	is   unit.State
	word Word
}

func TestGate(t *testing.T) {
	const s = time.Second
	job := map[string]error{"a.service": errors.New("start a.service: timeout")}
	tests := []struct {
		name   string
		want   generation.Unit
		broken []string
		failed map[string]error
		looks  []look
		reason string
	}{
		{
			"well for long enough",
			generation.Unit{},
			nil,
			nil,
			[]look{{0, active, Wait}, {9 * s, active, Wait}, {10 * s, active, Good}},
			"",
		},
		{
			"failed at once",
			generation.Unit{},
			nil,
			nil,
			[]look{{0, failed, Bad}},
			"unit a.service failed: exit-code, exit code 3",
		},
		{
			"fails after it was well",
			generation.Unit{},
			nil,
			nil,
			[]look{{0, active, Wait}, {s, failed, Bad}},
			"unit a.service failed: exit-code, exit code 3",
		},
		{
			"failed, with a job that starts it again",
			generation.Unit{},
			nil,
			nil,
			[]look{
				{0, unit.State{Active: "failed", Sub: "failed", Job: true}, Wait},
				{s, active, Wait},
				{11 * s, active, Good},
			},
			"",
		},
		{
			"slow to start",
			generation.Unit{},
			nil,
			nil,
			[]look{
				{0, activating, Wait},
				{50 * s, activating, Wait},
				{59 * s, active, Wait},
				{68 * s, active, Wait},
				{69 * s, active, Good},
			},
			"",
		},
		{
			"not started by the limit",
			generation.Unit{},
			nil,
			nil,
			[]look{{0, activating, Wait}, {60 * s, activating, Bad}},
			"unit a.service is activating/start after 1m0s",
		},
		{
			"asks for longer than the limit",
			generation.Unit{},
			nil,
			nil,
			[]look{
				{60 * s, slow(2*time.Minute, activating), Wait},
				{129 * s, slow(2*time.Minute, activating), Wait},
				{130 * s, slow(2*time.Minute, activating), Bad},
			},
			"unit a.service is activating/start after 2m10s",
		},
		{
			"does not stay up",
			generation.Unit{},
			nil,
			nil,
			[]look{
				{0, active, Wait},
				{s, restarted(1, looping), Wait},
				{3 * s, restarted(2, active), Wait},
				{5 * s, restarted(3, active), Bad},
			},
			"unit a.service does not stay up: systemd has restarted it 3 times",
		},
		{
			"was restarted before the change, and not since",
			generation.Unit{},
			nil,
			nil,
			[]look{{0, restarted(7, active), Wait}, {10 * s, restarted(7, active), Good}},
			"",
		},
		{
			"restarted once, then steady",
			generation.Unit{},
			nil,
			nil,
			[]look{
				{0, active, Wait},
				{9 * s, restarted(1, active), Wait},
				{18 * s, restarted(1, active), Wait},
				{19 * s, restarted(1, active), Good},
			},
			"",
		},
		{
			"one blip restarts the time",
			generation.Unit{},
			nil,
			nil,
			[]look{
				{0, active, Wait},
				{5 * s, activating, Wait},
				{6 * s, active, Wait},
				{15 * s, active, Wait},
				{16 * s, active, Good},
			},
			"",
		},
		{
			"broken before, and still failed",
			generation.Unit{},
			[]string{"a.service"},
			nil,
			[]look{{0, failed, Wait}, {10 * s, failed, Good}},
			"unit a.service failed: exit-code, exit code 3",
		},
		{
			"broken before, and restarted again and again",
			generation.Unit{},
			[]string{"a.service"},
			nil,
			[]look{{0, restarted(4, looping), Wait}, {10 * s, restarted(9, looping), Good}},
			"unit a.service does not stay up: systemd has restarted it 5 times",
		},
		{
			"on demand and down",
			generation.Unit{OnDemand: true},
			nil,
			nil,
			[]look{{0, inactive, Wait}, {10 * s, inactive, Good}},
			"",
		},
		{
			"desired stopped, and it is",
			generation.Unit{Stopped: true},
			nil,
			nil,
			[]look{{0, inactive, Wait}, {10 * s, inactive, Good}},
			"",
		},
		{
			"desired stopped, and it does not stop",
			generation.Unit{Stopped: true},
			nil,
			nil,
			[]look{{0, active, Wait}, {60 * s, active, Bad}},
			"unit a.service is active/running after 1m0s",
		},
		{
			"a job error of a unit that is down",
			generation.Unit{},
			nil,
			job,
			[]look{{0, inactive, Bad}},
			"start a.service: timeout",
		},
		{
			"a job error of a starting unit",
			generation.Unit{},
			nil,
			job,
			[]look{{0, activating, Wait}, {s, active, Wait}, {11 * s, active, Good}},
			"",
		},
		{
			"a job error of a healthy unit",
			generation.Unit{},
			nil,
			job,
			[]look{{0, active, Wait}, {10 * s, active, Good}},
			"",
		},
		{
			"an unknown unit",
			generation.Unit{Name: "t@.service"},
			nil,
			nil,
			[]look{{0, failed, Wait}, {10 * s, failed, Good}},
			"",
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			const began = time.Hour
			if tt.want.Name == "" {
				tt.want.Name = "a.service"
			}

			g := Gate{
				Want:   generation.Manifest{Units: []generation.Unit{tt.want}},
				Broken: tt.broken,
				Failed: tt.failed,
				Since:  began,
				Steady: 10 * s,
				Limit:  time.Minute,
			}

			if tt.broken == nil {
				g.Well = []string{"a.service"}
			}

			var v Verdict
			for _, l := range tt.looks {
				v = g.Judge([]unit.State{named("a.service", l.is)}, nil, began+l.at)
				if v.Word != l.word {
					t.Fatalf("after %s: %+v, not %s", l.at, v, l.word)
				}
				if v.Word == Wait && v.Next <= began+l.at {
					t.Errorf("after %s: the next judgement is at %s, which is not later",
						l.at, v.Next-began)
				}
			}
			if v.Reason != tt.reason {
				t.Errorf("reason %q, not %q", v.Reason, tt.reason)
			}
		})
	}
}

func TestPatience(t *testing.T) {
	const usual = time.Minute
	for asks, want := range map[time.Duration]time.Duration{
		0:                usual,
		5 * time.Second:  usual,
		90 * time.Second: usual,
		91 * time.Second: 101 * time.Second,
		5 * time.Minute:  5*time.Minute + 10*time.Second,
		time.Hour:        5*time.Minute + 10*time.Second,
	} {
		if got := Patience(usual, slow(asks, activating)); got != want {
			t.Errorf("a unit that asks for %s gets %s, want %s", asks, got, want)
		}
	}
}

// Of units that hang, the one whose time ends first is waited for.
func TestGateOfUnitsThatAskForMoreTime(t *testing.T) {
	const limit = time.Minute
	g := Gate{
		Want: generation.Manifest{Units: []generation.Unit{
			{Name: "api.service"}, {Name: "kubelet.service"},
		}},
		Well:   []string{"api.service", "kubelet.service"},
		Since:  time.Hour,
		Steady: 10 * time.Second,
		Limit:  limit,
	}
	v := g.Judge([]unit.State{
		named("api.service", slow(4*time.Minute, activating)),
		named("kubelet.service", activating),
	}, nil, g.Since)
	if v.Word != Wait || v.Unit != "kubelet.service" || v.Deadline != g.Since+limit {
		t.Errorf("%+v", v)
	}

	v = g.Judge([]unit.State{
		named("api.service", slow(4*time.Minute, activating)),
		named("kubelet.service", active),
	}, nil, g.Since+limit)
	if v.Word != Wait || v.Unit != "api.service" || v.Deadline != g.Since+4*time.Minute+10*time.Second {
		t.Errorf("%+v", v)
	}
}

// The unit was never well on this node.
func TestGateOfUncountedUnits(t *testing.T) {
	const s = time.Second
	job := map[string]error{"a.service": errors.New("start a.service: dependency")}
	tests := []struct {
		name   string
		want   generation.Unit
		failed map[string]error
		first  unit.State
		last   unit.State
		how    string // "" for nothing to report
	}{
		{"up", generation.Unit{}, nil, active, active, ""},
		{
			"failed",
			generation.Unit{},
			nil,
			failed,
			failed,
			"unit a.service failed: exit-code, exit code 3",
		},
		{
			"ended by itself",
			generation.Unit{},
			nil,
			active,
			inactive,
			"unit a.service is inactive/dead",
		},
		{"on its way", generation.Unit{}, nil, activating, activating, ""},
		{
			"restarted again and again",
			generation.Unit{},
			nil,
			looping,
			restarted(4, looping),
			"unit a.service does not stay up: systemd has restarted it 4 times",
		},
		{
			"restarted, and up just now",
			generation.Unit{},
			nil,
			looping,
			restarted(1, active),
			"unit a.service does not stay up: systemd has restarted it once",
		},
		{
			"its job failed",
			generation.Unit{},
			job,
			inactive,
			inactive,
			"start a.service: dependency",
		},
		{
			"its job failed, and it is on demand",
			generation.Unit{OnDemand: true},
			job,
			inactive,
			inactive,
			"start a.service: dependency",
		},
		{"its job failed, and it is up", generation.Unit{}, job, active, active, ""},
		{
			"it does not stop",
			generation.Unit{Stopped: true},
			nil,
			active,
			active,
			"unit a.service is active/running",
		},
		{
			"on demand and disabled",
			generation.Unit{Stopped: true, OnDemand: true},
			nil,
			failed,
			failed,
			"",
		},
	}

	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.want.Name = "a.service"
			g := Gate{
				Want:   generation.Manifest{Units: []generation.Unit{tt.want}},
				Failed: tt.failed,
				Since:  time.Hour,
				Steady: 10 * s,
				Limit:  time.Minute,
			}
			if v := g.Judge([]unit.State{named("a.service", tt.first)}, nil, time.Hour); v.Word != Wait {
				t.Fatalf("at first: %+v", v)
			}

			v := g.Judge([]unit.State{named("a.service", tt.last)}, nil, time.Hour+10*s)
			var want []Unwell
			if tt.how != "" {
				want = []Unwell{{"a.service", tt.how}}
			}

			if diff := cmp.Diff(want, v.Unwell); diff != "" || v.Word != Good {
				t.Errorf("%s, unwell (-want +got):\n%s", v.Word, diff)
			}
		})
	}
}

// TestGateOfWhatAnswers is about a service that is up as soon as it has a
// process, and that answered before the change.
func TestGateOfWhatAnswers(t *testing.T) {
	const (
		began = time.Hour
		s     = time.Second
	)
	refused := errors.New("connection refused")
	type look struct {
		at     time.Duration
		is     unit.State
		asked  bool
		answer error
		word   Word
		next   time.Duration
	}

	for _, test := range []struct {
		name   string
		want   generation.Unit
		gate   Gate
		looks  []look
		reason string
	}{
		{
			name: "it answers at once",
			looks: []look{
				{at: 0, is: active, asked: true, word: Wait, next: 10 * s},
				{at: 10 * s, is: active, word: Good},
			},
		},
		{
			name: "it answers late: 10 s from then",
			looks: []look{
				{at: 0, is: active, asked: true, answer: refused, word: Wait, next: 1 * s},
				{at: 30 * s, is: active, asked: true, answer: refused, word: Wait, next: 31 * s},
				{at: 31 * s, is: active, asked: true, word: Wait, next: 41 * s},
				{at: 41 * s, is: active, word: Good},
			},
		},
		{
			name: "it never answers",
			looks: []look{
				{at: 0, is: active, asked: true, answer: refused, word: Wait, next: 1 * s},
				{at: 59900 * time.Millisecond, is: active, asked: true, answer: refused, word: Wait, next: 60 * s},
				{at: 60 * s, is: active, asked: true, answer: refused, word: Bad},
			},
			reason: "unit a.service does not answer (connection refused) after 1m0s",
		},
		{
			name: "it ends before it answers",
			looks: []look{
				{at: 0, is: active, asked: true, answer: refused, word: Wait, next: 1 * s},
				{at: 12 * s, is: failed, word: Bad},
			},
			reason: "unit a.service failed: exit-code, exit code 3",
		},
		{
			name: "it is restarted after its answer",
			looks: []look{
				{at: 0, is: active, asked: true, word: Wait, next: 10 * s},
				{at: 5 * s, is: restarted(1, active), asked: true, answer: refused, word: Wait, next: 6 * s},
				{at: 15 * s, is: restarted(1, active), asked: true, word: Wait, next: 25 * s},
				{at: 25 * s, is: restarted(1, active), word: Good},
			},
		},
		{
			name: "it is started again after its answer",
			looks: []look{
				{at: 0, is: active, asked: true, word: Wait, next: 10 * s},
				{at: 5 * s, is: activating, word: Wait, next: 60 * s},
				{at: 8 * s, is: active, asked: true, answer: refused, word: Wait, next: 9 * s},
				{at: 9 * s, is: active, asked: true, word: Wait, next: 19 * s},
			},
			reason: "all units that count are well",
		},
		{
			name: "the change stops it",
			want: generation.Unit{Stopped: true},
			looks: []look{
				{at: 0, is: inactive, word: Wait, next: 10 * s},
				{at: 10 * s, is: inactive, word: Good},
			},
		},
		{
			name: "it was broken before",
			gate: Gate{Broken: []string{"a.service"}},
			looks: []look{
				{at: 0, is: active, word: Wait, next: 10 * s},
				{at: 10 * s, is: active, word: Good},
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.want.Name = "a.service"
			g := test.gate
			g.Want = generation.Manifest{Units: []generation.Unit{test.want}}
			g.Answered = []string{"a.service"}
			g.Since, g.Steady, g.Limit = began, 10*s, time.Minute
			if g.Broken == nil {
				g.Well = []string{"a.service"}
			}

			var v Verdict
			for _, l := range test.looks {
				states := []unit.State{named("a.service", l.is)}
				var asks []string
				var answers map[string]error
				if l.asked {
					asks = []string{"a.service"}
					answers = map[string]error{"a.service": l.answer}
				}
				if diff := cmp.Diff(asks, g.Asks(states)); diff != "" {
					t.Errorf("after %s: asks (-want +got):\n%s", l.at, diff)
				}

				v = g.Judge(states, answers, began+l.at)
				if v.Word != l.word || (l.next > 0 && v.Next != began+l.next) {
					t.Fatalf("after %s: %+v, not %s until %s", l.at, v, l.word, l.next)
				}
			}
			if test.reason != "" && v.Reason != test.reason {
				t.Errorf("reason %q, not %q", v.Reason, test.reason)
			}
		})
	}
}

func TestGateOfNoUnits(t *testing.T) {
	if v := new(Gate).Judge(nil, nil, time.Hour); v.Word != Good {
		t.Errorf("verdict on files alone, with no time to prove: %+v", v)
	}
}
