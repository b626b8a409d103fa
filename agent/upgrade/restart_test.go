package upgrade

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/agent/window"
)

var (
	one = System{Version: "1.0.0", RootHash: "aa"}
	two = System{Version: "2.0.0", RootHash: "bb"}
)

// inMemory are records in memory.
type inMemory map[string][]byte

func (m inMemory) Read(name string) ([]byte, error) {
	if data, ok := m[name]; ok {
		return data, nil
	}
	return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
}

func (m inMemory) Write(name string, data []byte) error {
	m[name] = data
	return nil
}

func (m inMemory) Remove(name string) error {
	delete(m, name)
	return nil
}

func (inMemory) Scratch(int64) (Closer, error) { return nil, fs.ErrInvalid }

func (inMemory) Free() (int64, error) { return 0, nil }

// still is a Node whose health does not change.
type still struct{ health Health }

func (s still) Health(context.Context) Health            { return s.health }
func (still) Evidence(context.Context, Journal) []string { return nil }
func (still) HandOver(string, bool) error                { return nil }
func (still) Loader() ([]byte, error)                    { return nil, fs.ErrNotExist }
func (still) Panic() error                               { return fs.ErrInvalid }

// restarting is a Machine that notes whether it is to restart.
type restarting struct{ restarts *bool }

func (restarting) Uptime() time.Duration      { return time.Minute }
func (restarting) Proven()                    {}
func (restarting) Event(bool, string, string) {}

func (r restarting) Reboot(context.Context) error {
	*r.restarts = true
	return nil
}

// armedUpgrader is on a machine that runs 1.0.0 and has 2.0.0 armed. It has no
// disk.
func armedUpgrader(t *testing.T) *Upgrader {
	t.Helper()
	u := &Upgrader{
		Records: inMemory{},
		Boot:    Boot{Running: one},
		Node:    still{Health{"all": {State: Well}}},
		Now:     func() time.Time { return time.Unix(1e9, 0) },
		Log:     zap.NewNop(),
	}

	j := Journal{
		Phase:    Armed,
		From:     one,
		Target:   two,
		Baseline: Health{"all": {State: Well}},
	}
	if err := records.Save(u.Records, journalName, j); err != nil {
		t.Fatal(err)
	}

	return u
}

// TestTheRestartWaitsForTheWindow has the window closed, and then open.
func TestTheRestartWaitsForTheWindow(t *testing.T) {
	u := armedUpgrader(t)
	closed, err := window.Parse("02:00-03:00") // It is 01:46.
	if err != nil {
		t.Fatal(err)
	}

	for _, test := range []struct {
		window window.Window
		edit   func(j *Journal)
		boots  bool
	}{
		{closed, func(*Journal) {}, false},
		{closed, func(j *Journal) { j.AtOnce = true }, true},
		{window.Window{}, func(j *Journal) { j.AtOnce = false }, true},
	} {
		j, err := ReadJournal(u.Records)
		if err != nil {
			t.Fatal(err)
		}

		test.edit(j)
		if records.Save(u.Records, journalName, j) != nil {
			t.Fatal("the journal cannot be written")
		}

		boots := false
		s := New(&Service{
			Upgrader: u,
			Machine:  restarting{&boots},
			Policy:   Policy{Window: test.window},
			Log:      zap.NewNop(),
		})

		s.next(t.Context(), Op{Kind: Reboot}, nil, 0)
		want := map[bool]string{false: "restarts on Sun at 02:00 UTC"}[boots]
		if boots != test.boots || s.State().Waits != want {
			t.Errorf("boots %v, waits %q, want %v", boots, s.State().Waits, test.boots)
		}
		if s.State().Restarts.IsZero() != boots {
			t.Errorf("boots %v, and restarts at %s", boots, s.State().Restarts)
		}
	}
}

// turnsOf are [Turns] that have a turn for may only.
type turnsOf struct{ may, awaited *System }

func (t turnsOf) Await(s System) string {
	*t.awaited = s
	if s == *t.may {
		return ""
	}
	return "waits for its turn"
}

func (turnsOf) Changed() <-chan struct{} { return nil }

// TestTheRestartWaitsForItsTurn has the turn taken by others, and then not.
func TestTheRestartWaitsForItsTurn(t *testing.T) {
	closed, err := window.Parse("02:00-03:00") // It is 01:46.
	if err != nil {
		t.Fatal(err)
	}

	for _, tt := range []struct {
		name          string
		edit          func(j *Journal)
		running, may  System
		window        window.Window
		boots, awaits bool
	}{
		{"others come first", func(*Journal) {}, one, System{}, window.Window{}, false, true},
		{"its turn", func(*Journal) {}, one, two, window.Window{}, true, true},
		{
			"its turn, outside of its window",
			func(*Journal) {}, one, two, closed, false, false,
		},
		{
			"an operator wants it at once",
			func(j *Journal) { j.AtOnce = true }, one, System{}, window.Window{}, true, false,
		},
		{"it falls back", func(*Journal) {}, two, System{}, window.Window{}, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := armedUpgrader(t)
			j, err := ReadJournal(u.Records)
			if err != nil {
				t.Fatal(err)
			}
			tt.edit(j)
			if err := records.Save(u.Records, journalName, j); err != nil {
				t.Fatal(err)
			}

			u.Boot.Running = tt.running
			boots := false
			var awaited System
			s := New(&Service{
				Upgrader: u,
				Machine:  restarting{&boots},
				Turns:    turnsOf{may: &tt.may, awaited: &awaited},
				Policy:   Policy{Window: tt.window},
				Log:      zap.NewNop(),
			})
			s.next(t.Context(), Op{Kind: Reboot}, nil, 0)
			if boots != tt.boots || (awaited == two) != tt.awaits {
				t.Errorf("boots %v, awaits a turn for %v", boots, awaited)
			}
			if want := tt.awaits && !tt.boots; (s.State().Waits == "waits for its turn") != want {
				t.Errorf("waits %q", s.State().Waits)
			}
		})
	}
}

// TestTheNextTryIsShown has a step fail, and then the next one begin to fetch.
func TestTheNextTryIsShown(t *testing.T) {
	u := armedUpgrader(t)
	s := New(&Service{Upgrader: u, Log: zap.NewNop()})
	s.next(t.Context(), Op{}, errors.New("connection refused"), time.Minute)
	if want := u.Now().Add(time.Minute); !s.State().Retry.Equal(want) {
		t.Errorf("tries again at %s, want %s", s.State().Retry, want)
	}

	listener{s}.Progress(Progress{})
	if at := s.State().Retry; !at.IsZero() {
		t.Errorf("tries again at %s while it tries", at)
	}
}

// TestATrialIsLookedAtAgain whose entry could not be read, whoever restarts the
// machine.
func TestATrialIsLookedAtAgain(t *testing.T) {
	u := armedUpgrader(t)
	s := New(&Service{Upgrader: u, Log: zap.NewNop()})
	for _, stay := range []bool{true, false} {
		for _, runs := range []System{one, two} {
			u.Boot.Running = runs
			j := Journal{
				Phase:  Armed,
				From:   one,
				Target: two,
				Stay:   stay,
			}
			if err := records.Save(u.Records, journalName, j); err != nil {
				t.Fatal(err)
			}

			want := !stay || runs == j.Target
			if again := s.next(t.Context(), Op{}, nil, 0); (again != nil) != want {
				t.Errorf("stay %v, %s runs: looked at again %v", stay, runs.Version, !want)
			}
		}
	}
}

// TestTheBaselineIsThatOfTheRestart has something break while an upgrade waits.
func TestTheBaselineIsThatOfTheRestart(t *testing.T) {
	u := armedUpgrader(t)
	u.Node = still{Health{"all": {State: Well}, "new": {State: Well}}}
	s := New(&Service{Upgrader: u, Machine: restarting{new(bool)}, Log: zap.NewNop()})
	s.next(t.Context(), Op{Kind: Reboot}, nil, 0)
	if j, err := ReadJournal(u.Records); err != nil || len(j.Baseline) != 2 {
		t.Errorf("baseline %v, %v", j.Baseline, err)
	}
}
