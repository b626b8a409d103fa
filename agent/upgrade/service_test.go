package upgrade

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/window"
	"github.com/loam-os/loam/partitions/gpt"
)

// TestGoingBackEndsATrial has somebody not wait for the verdict.
func TestGoingBackEndsATrial(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	c.upgrade("2.0.0", Wish{})
	ctx, cancel := context.WithCancel(t.Context())
	rebooted, done := make(chan struct{}), make(chan struct{})
	s := New(&Service{
		Upgrader: c.u, Trial: &Trial{Limit: time.Hour}, Uptime: func() time.Duration { return time.Minute },
		Reboot: func(context.Context) error { close(rebooted); return nil }, Log: zap.NewNop(),
	})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	for _, plan := range []bool{true, false} {
		if version, err := s.Ask(ctx, Request{Back: true, Plan: plan}); err != nil || version != "1.0.0" {
			t.Errorf("back to %q: %v", version, err)
		}
	}
	<-rebooted
	cancel()
	<-done
	c.boot()
	if c.running.Version != "1.0.0" {
		t.Fatalf("%s runs", c.running.Version)
	}
	c.run(Verdict{})
	c.remembers("2.0.0")
	if failed, _ := Failures(c.recorder); failed[0].Reason != "somebody has gone back" {
		t.Errorf("remembers %v", failed)
	}
}

// TestTheRestartWaitsForTheWindow has the window closed, and then open.
func TestTheRestartWaitsForTheWindow(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	if err := c.u.Begin(c.releases[1].index, Wish{}, Facts{}); err != nil {
		t.Fatal(err)
	}
	c.run(Verdict{})
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
		j, err := ReadJournal(c.recorder)
		if err != nil {
			t.Fatal(err)
		}
		if test.edit(j); write(c.recorder, journalName, j) != nil {
			t.Fatal("the journal cannot be written")
		}
		boots := false
		s := New(&Service{Upgrader: c.u, Window: test.window, Log: zap.NewNop(), Reboot: func(context.Context) error { boots = true; return nil }})
		s.next(t.Context(), Op{Kind: Reboot}, nil, 0)
		if want := map[bool]string{false: "restarts on Sun at 02:00 UTC"}[boots]; boots != test.boots || s.State().Waits != want {
			t.Errorf("boots %v, waits %q, want %v", boots, s.State().Waits, test.boots)
		}
	}
}

// TestWhatIsArmedCanBeAskedForAgain has a downgrade and a way back wait, and then not.
func TestWhatIsArmedCanBeAskedForAgain(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
	c.upgrade("2.0.0", Wish{})
	c.run(Verdict{Word: Good})
	down := c.releases[0].index
	if err := c.u.Begin(down, Wish{Downgrade: true}, Facts{}); err != nil {
		t.Fatal(err)
	}
	c.run(Verdict{})
	if err := c.u.Begin(down, Wish{Downgrade: true, AtOnce: true}, Facts{}); err != nil {
		t.Errorf("a downgrade, once more and at once: %v", err)
	}
	if j, err := ReadJournal(c.recorder); err != nil || !j.AtOnce || j.Phase != Armed {
		t.Errorf("journal %+v, %v", j, err)
	}
	if err := c.u.Begin(c.releases[2].index, Wish{}, Facts{}); err == nil {
		t.Error("another one is taken while that is armed")
	}
	c.boot()
	c.run(Verdict{Word: Good})
	for range 2 {
		if _, err := c.u.Back(Wish{Stay: true}, false); err != nil {
			t.Errorf("back, and once more: %v", err)
		}
		c.run(Verdict{})
	}
}

// TestAskedForAgainItComesFromTheOtherPlace has an upgrade stop, and go on by another index.
func TestAskedForAgainItComesFromTheOtherPlace(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	two := c.releases[1].index
	elsewhere := two
	elsewhere.Pack.Size++
	if err := c.u.Begin(elsewhere, Wish{Ref: "there"}, Facts{}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.u.Run(t.Context(), Verdict{}, noPack{}); !errors.Is(err, ErrNoPack) {
		t.Fatal(err)
	}
	two.Epoch = 3
	if err := c.u.Begin(two, Wish{Ref: "here"}, Facts{}); err != nil {
		t.Fatal(err)
	}
	j, err := ReadJournal(c.recorder)
	if idx, indexErr := index(c.recorder); indexErr != nil || idx.Pack != two.Pack || err != nil || j.Ref != "here" || j.Epoch != 3 {
		t.Errorf("%+v, pack %+v, %v", j, idx.Pack, errors.Join(err, indexErr))
	}
	c.restarts()
}

// TestATrialIsLookedAtAgain whose entry could not be read, whoever restarts the machine.
func TestATrialIsLookedAtAgain(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	s := New(&Service{Upgrader: c.u, Log: zap.NewNop()})
	for _, stay := range []bool{true, false} {
		for _, runs := range []System{c.releases[0].System, c.releases[1].System} {
			c.u.Running = runs
			j := Journal{Phase: Armed, From: c.releases[0].System, Target: c.releases[1].System, Stay: stay}
			if err := write(c.recorder, journalName, j); err != nil {
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
	c := newCourse(t, "1.0.0", "2.0.0")
	if err := c.u.Begin(c.releases[1].index, Wish{}, Facts{}); err != nil {
		t.Fatal(err)
	}
	c.run(Verdict{})
	c.u.Health = func(context.Context) Health { return Health{"all": {State: Well}, "new": {State: Well}} }
	s := New(&Service{Upgrader: c.u, Log: zap.NewNop(), Reboot: func(context.Context) error { return nil }})
	s.next(t.Context(), Op{Kind: Reboot}, nil, 0)
	if j, err := ReadJournal(c.recorder); err != nil || len(j.Baseline) != 2 {
		t.Errorf("baseline %v, %v", j.Baseline, err)
	}
}

// TestASlotThatCannotBeReadIsNoReasonToStay upgrades from a disk that is failing.
func TestASlotThatCannotBeReadIsNoReasonToStay(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	c.u.Disk.Running = func(gpt.Partition) (io.ReaderAt, io.Closer, error) { return nil, nil, errors.New("input/output error") }
	c.upgrade("2.0.0", Wish{})
	if c.running.Version != "2.0.0" {
		t.Errorf("%s runs", c.running.Version)
	}
}

// TestAWayBackThatIsDamagedIsToldOf damages the other slot.
func TestAWayBackThatIsDamagedIsToldOf(t *testing.T) {
	c := newCourse(t, "1.0.0", "2.0.0")
	c.upgrade("2.0.0", Wish{})
	c.run(Verdict{Word: Good})
	if _, err := c.recorder.WriteAt([]byte("damage"), c.table.Partitions[2].Start+5000); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	s := New(&Service{Upgrader: c.u, Log: zap.NewNop(), Reboot: func(context.Context) error { t.Error("it restarts"); return nil }})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	if _, err := s.Ask(ctx, Request{Back: true}); !errors.Is(err, errGone) {
		t.Errorf("error %v", err)
	}
	cancel()
	<-done
}
