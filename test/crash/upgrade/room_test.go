package upgrade_test

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/test/firmware"
)

// TestAStatePartitionThatIsFullAtEveryStep fills the state partition before each
// record of an upgrade, and the UKI, until the step has said so: the machine
// starts from what is on its disk then, and goes on when there is room.
func TestAStatePartitionThatIsFullAtEveryStep(t *testing.T) {
	for _, verdict := range []upgrade.Verdict{
		{Word: upgrade.Good}, {Word: upgrade.Bad, Reason: "kubelet.service failed"},
	} {
		t.Run(string(verdict.Word), func(t *testing.T) {
			at := 0
			for ; fullAt(t, at, verdict); at++ {
				if at > 100 {
					t.Fatal("no end")
				}
			}
			if at < 7 {
				t.Errorf("only %d records", at)
			}
		})
	}
}

// fullAt plays an upgrade whose record number at finds no room, and reports
// whether it has so many.
func fullAt(t *testing.T, at int, verdict upgrade.Verdict) bool {
	t.Helper()
	p, disk := newFixture(t, "1.0.0", "2.0.0")
	one, two := p.releases[0], p.releases[1]
	r := newRecorder(disk, nil)
	written, reached, full := 0, false, false
	r.full = func() bool {
		if written == at && !reached {
			reached, full = true, true
		}
		written++
		return full
	}
	do := func(name string, step func() error) {
		t.Helper()
		err := step()
		switch {
		case full && err == nil:
			t.Logf("record %d: %s goes on without it", at, name)
		case full && !errors.Is(err, unix.ENOSPC):
			t.Fatalf("record %d: %s does not say why: %v", at, name, err)
		case full:
			left := firmware.NewMemory(r.Memory.Flat())
			if runs, err := p.boot(left); err != nil || (runs != one.System && runs != two.System) {
				t.Fatalf("record %d: after %s, %v starts: %v", at, name, runs, err)
			}
		}
		if full {
			full = false
			err = step()
		}
		if err != nil {
			t.Fatalf("record %d: %s, with room: %v", at, name, err)
		}
	}

	u := p.upgrader(r, one.System)
	run := func(v upgrade.Verdict, from fill.Sources, want upgrade.OpKind) func() error {
		return func() error {
			op, err := u.Run(t.Context(), v, from)
			if err == nil && op.Kind != want {
				t.Fatalf("record %d: %v, want %v", at, op, want)
			}
			return err
		}
	}

	do("to begin", func() error { return u.Begin(two.index, upgrade.Options{}, upgrade.Facts{}) })
	do("to stage", run(upgrade.Verdict{}, packOnly(p.pack("2.0.0")), upgrade.Reboot))
	runs, err := p.boot(r.Memory)
	if err != nil || runs != two.System {
		t.Fatalf("record %d: boots %v %v", at, runs, err)
	}
	u = p.upgrader(r, runs)
	do("the trial", run(upgrade.Verdict{}, fill.Sources{}, upgrade.Observe))

	want := one.System
	if verdict.Word == upgrade.Good {
		want = two.System
		do("the verdict", run(verdict, fill.Sources{}, upgrade.Nothing))
	} else {
		do("the verdict", run(verdict, fill.Sources{}, upgrade.Reboot))
		if runs, err = p.boot(r.Memory); err != nil || runs != want {
			t.Fatalf("record %d: boots %v %v, want the system before", at, runs, err)
		}
		u = p.upgrader(r, runs)
		do("the way back", run(upgrade.Verdict{}, fill.Sources{}, upgrade.Nothing))
		if failed, err := upgrade.Failures(r); err != nil || len(failed) != 1 {
			t.Errorf("record %d: remembers %v %v", at, failed, err)
		}
	}

	if j, err := upgrade.ReadJournal(r); j != nil || err != nil {
		t.Errorf("record %d: journal %v %v", at, j, err)
	}
	if runs, err = p.boot(r.Memory); err != nil || runs != want {
		t.Errorf("record %d: later, %v starts: %v", at, runs, err)
	}
	return reached
}
