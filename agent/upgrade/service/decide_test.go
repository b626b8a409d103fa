package service

import (
	"testing"
	"time"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/window"
)

var (
	one = upgrade.System{Version: "1.0.0", RootHash: "aa"}
	two = upgrade.System{Version: "2.0.0", RootHash: "bb"}
)

// now is a Sunday, 01:46 UTC.
var now = time.Unix(1e9, 0)

func TestDecide(t *testing.T) {
	closed, err := window.Parse("02:00-03:00")
	if err != nil {
		t.Fatal(err)
	}
	opensAt := now.UTC().Truncate(time.Hour).Add(time.Hour)
	far, err := window.Parse("01:00-01:30")
	if err != nil {
		t.Fatal(err)
	}

	armed := upgrade.Journal{Phase: upgrade.Armed, From: one, Target: two}
	with := func(edit func(j *upgrade.Journal)) *upgrade.Journal {
		j := armed
		edit(&j)
		return &j
	}
	atOnce := with(func(j *upgrade.Journal) { j.AtOnce = true })
	stays := with(func(j *upgrade.Journal) { j.Stay = true })
	drill := with(func(j *upgrade.Journal) { j.Drill = &upgrade.Drilling{}; j.Target = one })
	reboot := upgrade.Op{Kind: upgrade.Reboot}
	observe := upgrade.Op{Kind: upgrade.Observe}
	asked := Turn{Asked: true}
	taken := Turn{Asked: true, Waits: "waits for its turn"}

	for _, tt := range []struct {
		name string
		s    Standing
		want Move
	}{
		{"a request to cancel comes", Standing{Interrupted: true, Failed: true},
			Move{Kind: Pause, After: pollInterval}},
		{"a step failed", Standing{Op: reboot, Failed: true, Pause: time.Minute},
			Move{Kind: Pause, After: time.Minute, Retry: now.Add(time.Minute)}},
		{"a trial", Standing{Op: observe, Running: two, Journal: &armed},
			Move{Kind: Pause, After: pollInterval}},
		{"a trial without a journal", Standing{Op: observe}, Move{Kind: Pause, After: pollInterval}},

		{"the window is closed", Standing{Op: reboot, Journal: &armed, Window: closed, Turn: asked},
			Move{
				Kind:     AwaitWindow,
				After:    retryMax,
				Waits:    "restarts on Sun at 02:00 UTC",
				Restarts: opensAt,
			}},
		{"the window opens soon", Standing{
			Op: reboot, Journal: &armed, Window: closed, Now: opensAt.Add(-time.Minute),
		}, Move{
			Kind:     AwaitWindow,
			After:    time.Minute,
			Waits:    "restarts on Sun at 02:00 UTC",
			Restarts: opensAt,
		}},
		{"the window opens tomorrow", Standing{Op: reboot, Journal: &armed, Window: far}, Move{
			Kind:     AwaitWindow,
			After:    retryMax,
			Waits:    "restarts on Mon at 01:00 UTC",
			Restarts: opensAt.Add(23 * time.Hour),
		}},
		{"the window is closed, and an operator cannot wait",
			Standing{Op: reboot, Journal: atOnce, Window: closed},
			Move{Kind: Restart, After: retryMax}},
		{"the window is closed, and the system falls back",
			Standing{Op: reboot, Running: two, Journal: &armed, Window: closed},
			Move{Kind: Restart, After: retryMax}},
		{"the window is closed, and a trial without a journal is over",
			Standing{Op: reboot, Running: two, Window: closed}, Move{Kind: Restart, After: retryMax}},

		{"others may come first", Standing{Op: reboot, Journal: &armed}, Move{Kind: AskTurn}},
		{"others come first", Standing{Op: reboot, Journal: &armed, Turn: taken},
			Move{Kind: Pause, After: retryMax, Waits: "waits for its turn"}},
		{"its turn", Standing{Op: reboot, Journal: &armed, Turn: asked}, Move{Kind: LookAgain}},
		{"its turn, and the release is there", Standing{
			Op: reboot, Journal: &armed, Turn: asked, Looked: true,
		}, Move{Kind: Restart, After: retryMax}},
		{"its turn, and the release was withdrawn", Standing{
			Op: reboot, Journal: &armed, Turn: asked, Looked: true, Withdrawn: true,
		}, Move{Kind: Drop}},
		{"a request to cancel comes while it looks for the release", Standing{
			Op: reboot, Journal: &armed, Turn: asked, Looked: true, Interrupted: true,
		}, Move{Kind: Pause, After: pollInterval}},
		{"an operator does not wait for others", Standing{Op: reboot, Journal: atOnce},
			Move{Kind: Restart, After: retryMax}},
		{"a drill does not wait for others", Standing{Op: reboot, Journal: drill},
			Move{Kind: Restart, After: retryMax}},
		{"a way back does not wait for others", Standing{Op: reboot, Running: two, Journal: &armed},
			Move{Kind: Restart, After: retryMax}},

		{"an operator restarts it", Standing{Op: reboot, Journal: stays, Check: time.Hour},
			Move{Kind: Rest, Due: two.Version}},
		{"an operator restarts it, and nothing is next", Standing{Journal: stays}, Move{Kind: Rest}},
		{"the trial of what an operator restarted is over",
			Standing{Op: reboot, Running: two, Journal: stays}, Move{Kind: Restart, After: retryMax}},
		{"the entry could not be read", Standing{Journal: &armed},
			Move{Kind: Pause, After: retryMax}},
		{"the entry could not be read in a trial that an operator began",
			Standing{Running: two, Journal: stays}, Move{Kind: Pause, After: retryMax}},

		{"machine.yaml asks for another", Standing{Wanted: "2.0.0", Check: time.Hour},
			Move{Kind: Bring, After: retryMax}},
		{"machine.yaml asks for the newest", Standing{Wanted: Newest, Check: time.Hour},
			Move{Kind: Bring, After: retryMax}},
		{"machine.yaml asks for the newest during an upgrade",
			Standing{Op: reboot, Journal: &armed, Wanted: Newest, Turn: taken},
			Move{Kind: Pause, After: retryMax, Waits: "waits for its turn"}},
		{"machine.yaml asks for another, and a check is due", Standing{Wanted: "2.0.0"},
			Move{Kind: CheckESP}},
		{"machine.yaml asks for another, and holds the system", Standing{
			Wanted: "2.0.0",
			Hold:   "audit",
			Check:  time.Hour,
		}, Move{Kind: Pause, After: time.Hour}},
		{"the system is held", Standing{Op: reboot, Journal: &armed, Hold: "audit"},
			Move{Kind: EndHeld}},
		{"the system is held, and an operator restarts it",
			Standing{Op: reboot, Journal: stays, Hold: "audit"}, Move{Kind: EndHeld}},
		{"the system is held, and an operator cannot wait",
			Standing{Op: reboot, Journal: atOnce, Hold: "audit"},
			Move{Kind: Restart, After: retryMax}},
		{"the system is held, and it is a drill",
			Standing{Op: reboot, Journal: drill, Hold: "audit"},
			Move{Kind: Restart, After: retryMax}},
		{"the system is held, and another one falls back",
			Standing{Op: reboot, Running: two, Journal: &armed, Hold: "audit"},
			Move{Kind: Restart, After: retryMax}},
		{"machine.yaml asks for what runs", Standing{Wanted: "1.0.0", Check: time.Hour},
			Move{Kind: Pause, After: time.Hour}},
		{"idle", Standing{Check: time.Hour}, Move{Kind: Pause, After: time.Hour}},
		{"idle, and a check is due", Standing{}, Move{Kind: CheckESP}},
		{"the journal cannot be read", Standing{Unreadable: true}, Move{Kind: Rest}},
	} {
		if tt.s.Running == (upgrade.System{}) {
			tt.s.Running = one
		}
		if tt.s.Now.IsZero() {
			tt.s.Now = now
		}
		if got := Decide(tt.s); got != tt.want {
			t.Errorf("%s:\n got %+v\nwant %+v", tt.name, got, tt.want)
		}
	}
}
