package loop_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/loop"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/units"
)

// stopsNothing is a systemd in which nothing can be stopped.
func stopsNothing(_ context.Context, job units.Job, do func() error) error {
	if job.Verb == "stop" {
		return errors.New(job.String() + ": timeout")
	}
	return do()
}

func TestJobsAreToldOnceByKind(t *testing.T) {
	systemd := &units.Fake{Around: stopsNothing}
	systemd.Set("d.service", unit.State{Active: "active", Sub: "running"})
	j, ctx := &loop.Jobs{Units: systemd}, t.Context()
	var told []string
	tell := func(warning bool, reason, message string) {
		told = append(told, fmt.Sprint(warning, " ", reason, " ", message))
	}
	j.Report(tell)
	_ = j.Restart(ctx, "b.service")
	_ = j.Restart(ctx, "a.service")
	_ = j.Start(ctx, "c.timer")
	_ = j.ReloadUnit(ctx, "d.service")
	if err := errors.Join(j.Stop(ctx, "e.service"), j.Stop(ctx, "f.service")); err == nil {
		t.Error("a job that failed did not")
	}

	j.Report(tell)
	j.Report(tell)
	want := []string{
		"false SystemDUnitReload reloaded d.service",
		"false SystemDUnitRestart restarted a.service, b.service",
		"false SystemDUnitStart started c.timer",
		"true SystemDUnitStop stop e.service: timeout; stop f.service: timeout",
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
