package loop

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/apply"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/health"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
)

// Times since kernel start, on the clock of unit.State.Since.
const (
	early = time.Minute
	late  = time.Hour
)

func active(name string) unit.State {
	return unit.State{Name: name, Active: "active", Sub: "running"}
}

func failed(name string) unit.State {
	return unit.State{
		Name:     name,
		Active:   "failed",
		Sub:      "failed",
		Result:   "exit-code",
		ExitCode: 3,
	}
}

func activating(name string) unit.State {
	return unit.State{Name: name, Active: "activating", Sub: "start"}
}

// running is a node with generation "one" of a.service and b.service, which are
// well.
func running() State {
	return State{
		Current: Current{
			Generation: generation.Manifest{
				Number: 1,
				Digest: "one",
				Units:  []generation.Unit{{Name: "a.service"}, {Name: "b.service"}},
			},
			Units:    []unit.State{active("a.service"), active("b.service")},
			Observed: true,
		},
	}
}

func TestGenerationCountsAsApplied(t *testing.T) {
	pending := &apply.Pending{}

	for _, tt := range []struct {
		name  string
		state func(s *State)
		now   time.Duration
		want  bool
		again time.Duration
	}{
		{name: "once all units are well", want: true},
		{
			name:  "not before there is one",
			state: func(s *State) { s.Current.Generation = generation.Manifest{} },
		},
		{
			name:  "not while the node is made something else",
			state: func(s *State) { s.Change.Applying = true },
		},
		{
			name:  "not while something else was asked for",
			state: func(s *State) { s.Faults.Desired = &status.Error{} },
		},
		{
			name:  "not between two generations",
			state: func(s *State) { s.Faults.Unfinished = &status.Error{} },
		},
		{
			name:  "not while a unit is to be started",
			state: func(s *State) { s.Starts.Owed = []string{"a.service"} },
		},
		{name: "with other faults all the same", want: true, state: func(s *State) {
			s.Faults.Drift, s.Faults.Jobs = &status.Error{}, &status.Error{}
		}},
		{
			name:  "without a unit that was not observed",
			want:  true,
			state: func(s *State) { s.Current.Units = s.Current.Units[:1] },
		},
		{
			name: "with a unit that was never well here",
			want: true,
			now:  late,
			state: func(s *State) {
				s.Current.Units[1] = failed("b.service")
			},
		},
		{name: "not with a unit that was well before", now: late, state: func(s *State) {
			s.Current.Units[1] = failed("b.service")
			s.Starts.Well = []string{"b.service"}
		}},
		{name: "not without a unit that pods need", now: late, state: func(s *State) {
			s.Current.Units[1] = failed("b.service")
			s.Current.Generation.Units[1].Essential = true
		}},
		{name: "not before the verdict on a unit on its way", now: late, state: func(s *State) {
			s.Current.Units[1] = activating("b.service")
			s.Change.Pending = pending
		}},
		{
			name: "with a unit on its way after the verdict",
			now:  late,
			want: true,
			state: func(s *State) {
				s.Current.Units[1] = activating("b.service")
				s.Change.Began = early
			},
		},
		{
			name:  "not while a boot has time for a unit on its way",
			now:   early,
			again: limit - early,
			state: func(s *State) {
				s.Current.Units[1] = activating("b.service")
			},
		},
		{
			name: "after a boot has waited for a unit on its way",
			now:  limit,
			want: true,
			state: func(s *State) {
				s.Current.Units[1] = activating("b.service")
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := running()
			if tt.state != nil {
				tt.state(&s)
			}
			got, again := s.isApplied(tt.now, limit)
			if got != tt.want || again != tt.again {
				t.Errorf("%t, again in %s; want %t, %s", got, again, tt.want, tt.again)
			}
		})
	}
}

func TestEvaluateNotesWhenAGenerationWasAppliedFirst(t *testing.T) {
	s, _ := running().evaluate(early, limit)
	if time.Duration(s.Facts.AppliedAt) != early {
		t.Errorf("applied at %s", s.Facts.AppliedAt)
	}
	s, _ = s.evaluate(late, limit)
	if time.Duration(s.Facts.AppliedAt) != early {
		t.Errorf("later, applied at %s", s.Facts.AppliedAt)
	}
}

func TestEvaluateEndsWhatStatesOfUnitsSay(t *testing.T) {
	jobs := &status.Error{Problem: "start a.service: timeout"}
	pending := &apply.Pending{}

	for _, tt := range []struct {
		name  string
		state func(s *State)
		want  *status.Error
	}{
		{"without a change, the states say it", func(*State) {}, nil},
		{
			"while a unit is to be started, it stays",
			func(s *State) { s.Starts.Owed = []string{"a.service"} },
			jobs,
		},
		{"in a change with a unit that is not well, it stays", func(s *State) {
			s.Change.Pending = pending
			s.Current.Units[0] = activating("a.service")
		}, jobs},
		{
			"in a change with all units well, it is over",
			func(s *State) { s.Change.Pending = pending },
			nil,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := running()
			s.Faults.Jobs = jobs
			s.Change.Shown = &status.Change{}
			tt.state(&s)
			got, _ := s.evaluate(early, limit)
			if got.Faults.Jobs != tt.want {
				t.Errorf("%+v, want %+v", got.Faults.Jobs, tt.want)
			}
			if (got.Change.Shown != nil) != (s.Change.Pending != nil) {
				t.Errorf("shows change %+v", got.Change.Shown)
			}
		})
	}
}

func TestPhaseOfTheNode(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state func(s *State)
		want  status.Phase
	}{
		{"it waits for a first configuration", func(s *State) { *s = State{} }, status.Waiting},
		{
			"it is wrong from the start",
			func(s *State) { *s = State{Faults: Faults{Desired: &status.Error{}}} },
			status.Failed,
		},
		{"its units come up", func(*State) {}, status.Applying},
		{"it was applied", func(s *State) { s.Facts.AppliedAt = status.Duration(early) }, status.Applied},
		{"it was applied, and a unit of a timer runs", func(s *State) {
			s.Facts.AppliedAt = status.Duration(early)
			s.Current.Units[0] = activating("a.service")
		}, status.Applied},
		{"it was applied, and a unit fails", func(s *State) {
			s.Facts.AppliedAt = status.Duration(early)
			s.Current.Units[0] = failed("a.service")
		}, status.Failed},
		{"its volume is absent", func(s *State) {
			s.Facts.AppliedAt = status.Duration(early)
			s.Facts.Volume = &status.Volume{Problem: "no data volume"}
		}, status.Failed},
		{"it is made something else, whatever is wrong", func(s *State) {
			s.Current.Units[0] = failed("a.service")
			s.Change.Applying = true
		}, status.Applying},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := running()
			tt.state(&s)
			if got := s.Status().Phase; got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

func TestStatusShowsWhatIsKnown(t *testing.T) {
	const digest = "0123456789abcdef"
	s := running()
	s.Facts = status.Status{ImageID: "loam", AppliedAt: status.Duration(early), Warnings: []string{"of the boot"}}
	s.Desired = Desired{Version: "v7", AppliedDigest: digest, FullDigest: "all"}
	s.Change.Shown = &status.Change{Good: "000000-good"}
	s.Starts.Unwell = []health.Unwell{{Unit: "b.service", How: "unit b.service failed"}}
	s.Faults = Faults{}.refused(status.Reverted, &status.Error{Problem: "taken back"})
	s.Current.Units[1] = failed("b.service")
	s.Current.Generation.Digest = digest
	s.Current.Generation.Source = "osc.yaml"
	s.Current.Generation.Entries = []generation.Entry{
		{Path: "/etc/a", Kind: generation.KindFile},
		{Path: "/etc/b", Kind: generation.KindLink},
		{Path: "/etc/kubernetes/manifests/etcd.yaml", Kind: generation.KindFile},
		{Path: "/etc/kubernetes/manifests/.hidden", Kind: generation.KindFile},
		{Path: "/etc/kubernetes/manifests/kube-apiserver.yaml", Kind: generation.KindFile},
	}

	want := status.Status{
		Phase:        status.Failed,
		Error:        &status.Error{Problem: "taken back"},
		ImageID:      "loam",
		Generation:   "000001-0123456789ab",
		Digest:       digest,
		Source:       "osc.yaml",
		Version:      "v7",
		Refused:      true,
		Refusal:      status.Reverted,
		ControlPlane: true,
		StaticPods: []string{
			"/etc/kubernetes/manifests/etcd.yaml",
			"/etc/kubernetes/manifests/kube-apiserver.yaml",
		},
		Files: 4,
		Units: []status.Unit{
			{
				Name:    "a.service",
				Active:  "active",
				Sub:     "running",
				Settled: true,
			},
			{Name: "b.service", Active: "failed", Sub: "failed"},
		},
		Change:    &status.Change{Good: "000000-good"},
		Warnings:  []string{"of the boot", "unit b.service failed; hint: `loam logs b.service`"},
		AppliedAt: status.Duration(early),
	}
	got := s.Status()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestANodeThatIsChangingSaysSo(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state func(s *State)
		want  bool
	}{
		{"it runs", func(*State) {}, false},
		{"it is made something else", func(s *State) { s.Change.Applying = true }, true},
		{"what was cut off is to be completed", func(s *State) { s.Due.Resume = true }, true},
		{"that is under way", func(s *State) {
			s.Due.Resume = true
			*s, _ = beginResume(*s, Step{}, 0)
		}, true},
		{"that is done", func(s *State) {
			s.Due.Resume = true
			*s, _ = beginResume(*s, Step{}, 0)
			*s, _ = afterResume(*s, Step{}, Result{}, 0)
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := running()
			tt.state(&s)
			if got := s.Status().Changing; got != tt.want {
				t.Errorf("%t, want %t", got, tt.want)
			}
		})
	}
}

func TestVersionIsShownOnceItRuns(t *testing.T) {
	for _, tt := range []struct {
		name  string
		state func(s *State)
		want  string
	}{
		{"it runs", func(*State) {}, "v7"},
		{"it does not count as applied yet", func(s *State) { s.Facts.AppliedAt = 0 }, ""},
		{"the node runs something else", func(s *State) { s.Desired.AppliedDigest = "two" }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := running()
			s.Facts.AppliedAt = status.Duration(early)
			s.Desired = Desired{Version: "v7", AppliedDigest: "one"}
			tt.state(&s)
			if got := s.Status().Version; got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestUnitThatRecovers(t *testing.T) {
	since := func(s unit.State, at time.Duration) unit.State {
		s.Since = at
		return s
	}

	for _, tt := range []struct {
		name  string
		units []unit.State
		want  bool
		again time.Duration
	}{
		{"is not observed any more", nil, true, 0},
		{"has failed", []unit.State{failed("b.service")}, false, 0},
		{
			"has just come up",
			[]unit.State{since(
				active("b.service"),
				late-time.Second,
			)},
			false,
			steady - time.Second,
		},
		{
			"has been up for long enough",
			[]unit.State{since(
				active("b.service"),
				late-steady,
			)},
			true,
			0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := running()
			s.Starts.Unwell = []health.Unwell{{Unit: "b.service"}}
			got, again := s.withUnits(tt.units, late, steady)
			if recovered := len(got.Starts.Unwell) == 0; recovered != tt.want || again != tt.again {
				t.Errorf("recovered %t, again in %s; want %t, %s",
					recovered, again, tt.want, tt.again)
			}
			if len(s.Starts.Unwell) != 1 {
				t.Error("the state before has changed")
			}
		})
	}
}

func TestUnitsAreObservedAgainForTheFirstThatMayRecover(t *testing.T) {
	s := running()
	s.Starts.Unwell = []health.Unwell{{Unit: "a.service"}, {Unit: "b.service"}}
	a, b := active("a.service"), active("b.service")
	a.Since, b.Since = late, late-2*time.Second
	if _, again := s.withUnits([]unit.State{a, b}, late, steady); again != steady-2*time.Second {
		t.Errorf("again in %s", again)
	}
}

func TestUnitThatCameUpByItselfIsStartedByTheEngine(t *testing.T) {
	s := running()
	s.Starts.Owed = []string{"b.service"}
	if got, _ := s.withUnits([]unit.State{failed("b.service")}, late, steady); got.Due.Start {
		t.Error("a start is due, and the unit has failed")
	}
	if got, _ := s.withUnits([]unit.State{active("b.service")}, late, steady); !got.Due.Start {
		t.Error("no start is due, and the unit is up")
	}
}

func TestBackoffDoublesUpToALimit(t *testing.T) {
	var wait time.Duration
	for _, want := range []time.Duration{5, 10, 20, 40, 80, 160, 300, 300} {
		wait = backoff(wait)
		if wait != want*time.Second {
			t.Errorf("%s, want %s", wait, want*time.Second)
		}
	}
}

func TestNewsAreWhatAnOperatorCaresAbout(t *testing.T) {
	staging := status.Status{Upgrade: &status.Upgrade{Phase: "staging", Done: 1}}
	further := status.Status{Upgrade: &status.Upgrade{Phase: "staging", Done: 2}}
	armed := status.Status{Upgrade: &status.Upgrade{Phase: "armed"}}
	joined := status.Status{Cluster: &status.Cluster{Reached: true, Connected: true}}
	away := status.Status{Cluster: &status.Cluster{Reached: true}}
	joining := status.Status{Cluster: &status.Cluster{}}
	refused := status.Status{Cluster: &status.Cluster{Problem: "its certificate has expired"}}
	silent := status.Status{Cluster: &status.Cluster{Problem: "no answer"}}
	trial := status.Status{Upgrade: &status.Upgrade{Phase: "trial", Waits: "ready"}}
	later := status.Status{Upgrade: &status.Upgrade{Phase: "trial", Waits: "10 s"}}

	for _, tt := range []struct {
		name      string
		s, before status.Status
		want      bool
	}{
		{"the trial goes on", later, trial, false},
		{"the release is blessed", status.Status{Upgrade: &status.Upgrade{}}, later, true},
		{"the trial begins", trial, status.Status{}, true},
		{"an upgrade begins", staging, status.Status{}, true},
		{"an upgrade is further", further, staging, false},
		{"an upgrade is armed", armed, further, true},
		{"the cluster answers for the first time", joined, joining, false},
		{"the cluster is not reached from the start", refused, joining, true},
		{"the cluster is not reached for another reason", silent, refused, true},
		{"the cluster is away", away, joined, true},
		{"the cluster is back", joined, away, true},
	} {
		var told told
		told.isNews(tt.before)
		if got := told.isNews(tt.s) || isNews(tt.s, tt.before); got != tt.want {
			t.Errorf("%s: news %t", tt.name, got)
		}
	}
}

// One of two addresses of a server is silent, the other one refuses. A serial line
// would have a page for each try.
func TestEachCauseOfAProblemIsNewsOnce(t *testing.T) {
	cluster := func(connected bool, problem string) status.Status {
		return status.Status{Cluster: &status.Cluster{
			Reached:   true,
			Connected: connected,
			Problem:   problem,
		}}
	}
	failing := func(problem string) status.Status {
		return status.Status{Error: &status.Error{Document: "machine.yaml", Problem: problem}}
	}

	for _, tt := range []struct {
		name  string
		steps []status.Status
		want  []bool
	}{
		{
			"on the way to the cluster",
			[]status.Status{
				cluster(true, ""), cluster(false, "silent"), cluster(false, "refuses"),
				cluster(false, "silent"), cluster(false, "refuses"),
				cluster(true, ""), cluster(false, "silent"),
			},
			[]bool{false, true, true, false, false, true, true},
		},
		{
			"of the cluster",
			[]status.Status{
				cluster(true, "no Secret"), cluster(true, "forbidden"), cluster(true, "no Secret"),
				cluster(false, "silent"), cluster(true, "no Secret"), cluster(true, ""),
			},
			[]bool{true, true, false, true, true, true},
		},
		{
			"of the source",
			[]status.Status{
				failing("silent"), failing("refuses"), failing("silent"), failing("refuses"),
				{}, failing("silent"),
			},
			[]bool{true, true, false, false, true, true},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var told told
			before := status.Status{}
			var got []bool
			for _, s := range tt.steps {
				news := told.isNews(s)
				got = append(got, news || isNews(s, before))
				before = s
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
