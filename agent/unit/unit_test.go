package unit_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/unit"
)

func TestJobThatHasNotEndedSaysWhatItsUnitDoes(t *testing.T) {
	err := &unit.JobError{
		Verb:  "start",
		Unit:  "a.service",
		State: unit.State{Active: "activating", Sub: "start-pre"},
		After: 100 * time.Second,
		Err:   context.DeadlineExceeded,
	}
	want := "start a.service: not done after 1m40s (unit is activating/start-pre)"
	if err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error("it is no timeout")
	}
}
