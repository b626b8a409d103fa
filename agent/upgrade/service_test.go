package upgrade

import (
	"context"
	"testing"
	"time"

	"go.uber.org/zap"
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
