package unit_test

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/hint/fault"
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

// An agent that is started by hand on another machine says what it needs.
func TestConnectWithoutSystemd(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+none)

	_, err := unit.Connect(t.Context(), none)
	if fault.Of(err) != fault.SystemdUnreachable || strings.Contains(err.Error(), "\n") {
		t.Errorf("%v, code %s", err, fault.Of(err))
	}
}
