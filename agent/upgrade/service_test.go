package upgrade

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/window"
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
