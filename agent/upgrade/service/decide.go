package service

import (
	"time"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/window"
)

const (
	// pollInterval is how often a trial is judged.
	pollInterval = 2 * time.Second
	// retryMin is the first wait before a bundle that could not be reached is
	// requested again, retryMax the longest.
	retryMin = 10 * time.Second
	retryMax = 10 * time.Minute
)

// Standing is what [Decide] decides on: how the upgrade stands when its next step
// has to wait.
type Standing struct {
	// Op is the step that has to wait, or the one that failed.
	Op     upgrade.Op
	Failed bool
	// Pause is how long to wait before a step that failed is tried again.
	Pause time.Duration
	// Interrupted says that a request to cancel has ended the step, and comes next.
	Interrupted bool

	// Running is the system of this boot.
	Running upgrade.System
	// Journal is the upgrade under way, nil if there is none. With Unreadable, it
	// cannot be said whether there is one.
	Journal    *upgrade.Journal
	Unreadable bool

	// Wanted is the version that machine.yaml asks for, [Newest], or "" for none.
	Wanted string

	// Hold is why the node keeps its system, "" if it does not.
	Hold string

	Now    time.Time
	Window window.Window
	Turn   Turn
	// Looked says that the repository was asked, which is the last thing before the
	// restart; Withdrawn that it has the release no longer.
	Looked, Withdrawn bool

	// Check is how long until the ESP is to be checked, 0 or less if it is due.
	Check time.Duration
}

// Turn is what the other machines say about a restart.
type Turn struct {
	Asked bool
	// Waits is why this machine does not restart yet, "" if it may.
	Waits string
}

// MoveKind is what a node does about its upgrade.
type MoveKind string

const (
	// Rest waits for a request.
	Rest MoveKind = "rest"
	// Pause waits for Move.After, and then takes a step.
	Pause MoveKind = "pause"
	// AwaitWindow is Pause, and lets other machines restart meanwhile.
	AwaitWindow MoveKind = "await the window"
	// AskTurn asks the other machines; the answer decides.
	AskTurn MoveKind = "ask for the turn"
	// LookAgain asks the repository whether it still has the release.
	LookAgain MoveKind = "look whether the release was withdrawn"
	// Drop ends the upgrade to a release that was withdrawn.
	Drop MoveKind = "drop what was withdrawn"
	// EndHeld ends the upgrade of a node that keeps its system now: any restart would
	// try the other one.
	EndHeld MoveKind = "end what is held"
	// Restart restarts the machine.
	Restart MoveKind = "restart"
	// Bring begins the upgrade to the version that machine.yaml asks for. If it is
	// refused, it is Pause.
	Bring MoveKind = "bring what machine.yaml asks for"
	// CheckESP looks for damage on the ESP.
	CheckESP MoveKind = "check the ESP"
)

// Move is what [Decide] decides: what the node does until the next request.
type Move struct {
	Kind MoveKind
	// After is when a step is taken, unless a request comes first. After Restart,
	// the machine should be down by then.
	After time.Duration

	// Due is the version that a restart would bring which is left to others, "" if
	// none is.
	Due string
	// Retry is for the status: when a step that failed is tried again.
	Retry time.Time
	// Waits is for the status: what the machine waits for, "" if that is known.
	Waits string
	// Restarts is for the status: when the window opens.
	Restarts time.Time
}

// Decide returns what a node does about its upgrade when the next step has to wait.
func Decide(s Standing) Move {
	switch {
	case s.Interrupted:
		return Move{Kind: Pause, After: pollInterval}
	case s.Failed:
		return Move{Kind: Pause, After: s.Pause, Retry: s.Now.Add(s.Pause)}
	case s.Op.Kind == upgrade.Observe:
		return Move{Kind: Pause, After: pollInterval}
	case s.Op.Kind == upgrade.Reboot && s.isHeld():
		return Move{Kind: EndHeld}
	case s.Op.Kind == upgrade.Reboot && !s.stays():
		return restart(s)
	case s.Op.Kind == upgrade.Reboot:
		return Move{Kind: Rest, Due: s.Journal.Target.Version}
	case s.Op.Kind != upgrade.Nothing:
		return Move{Kind: Rest}
	case s.isIdle() && s.Check <= 0:
		return Move{Kind: CheckESP}
	case s.Journal != nil && !s.stays():
		return Move{Kind: Pause, After: retryMax}
	case s.Hold == "" && s.Wanted != "" && s.Wanted != s.Running.Version:
		return Move{Kind: Bring, After: retryMax}
	case s.isIdle():
		return Move{Kind: Pause, After: s.Check}
	}
	return Move{Kind: Rest}
}

// restart returns what comes before a restart. A restart out of the target waits for
// nothing, and what an operator wants at once does not wait for other machines.
func restart(s Standing) Move {
	j := s.Journal
	if j == nil || j.From != s.Running {
		return Move{Kind: Restart, After: retryMax}
	}

	opens := opens(s.Window, s.Now, j.AtOnce)
	switch {
	case !opens.IsZero():
		return Move{
			Kind:     AwaitWindow,
			After:    min(opens.Sub(s.Now), retryMax), // The clock may be set meanwhile.
			Waits:    opens.Format("restarts on Mon at 15:04 MST"),
			Restarts: opens,
		}
	case j.AtOnce || j.Drill != nil:
		return Move{Kind: Restart, After: retryMax}
	case !s.Turn.Asked:
		return Move{Kind: AskTurn}
	case s.Turn.Waits != "":
		return Move{Kind: Pause, After: retryMax, Waits: s.Turn.Waits}
	case !s.Looked:
		return Move{Kind: LookAgain}
	case s.Withdrawn:
		return Move{Kind: Drop}
	}
	return Move{Kind: Restart, After: retryMax}
}

// opens returns when an upgrade that is ready may restart the machine, the zero
// time for at once.
func opens(w window.Window, now time.Time, atOnce bool) time.Time {
	now = now.UTC()
	if opens := w.Opens(now); opens.After(now) && !atOnce {
		return opens
	}
	return time.Time{}
}

// isIdle reports whether no upgrade is under way.
func (s Standing) isIdle() bool { return s.Journal == nil && !s.Unreadable }

// isHeld reports whether the upgrade is of a node that keeps its system. What an
// operator has asked for at once goes on, and so do drills and trials.
func (s Standing) isHeld() bool {
	j := s.Journal
	return s.Hold != "" && j != nil && j.From == s.Running && !j.AtOnce && j.Drill == nil
}

// stays reports whether the restart into the target is left to the operator.
// The restart out of it never is.
func (s Standing) stays() bool {
	return s.Journal != nil && s.Journal.Stay && s.Journal.From == s.Running
}
