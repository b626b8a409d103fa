package agent

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/loam-os/loam/agent/console"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/hint/fault"
)

// End is how a process of the agent has ended, in the words that systemd.exec(5)
// has for $SERVICE_RESULT, $EXIT_CODE and $EXIT_STATUS.
type End struct{ Result, Code, Status string }

// isCrash reports whether the process has ended without being told to. Without a
// Result nobody says that it has.
func (e End) isCrash() bool { return e.Result != "" && e.Result != "success" }

// stopTimeout is how long systemd has to say whether it stops the agent.
const stopTimeout = 10 * time.Second

// IsToldToStop reports whether the systemd that listens on socket has been told to
// stop the agent, as at a shutdown; false if it does not say.
func IsToldToStop(ctx context.Context, socket string) bool {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	systemd, err := unit.Connect(ctx, socket)
	if err != nil {
		return false
	}
	defer systemd.Close()
	told, _ := systemd.IsToldToStop(ctx, generation.AgentUnit) // The end is said, then.
	return told
}

const (
	// endedPath is changed whenever the consoles are told of an end.
	endedPath = "run/loam/ended"
	// endedPause is how long another end is not worth saying: systemd starts an
	// agent that ends at once every second.
	endedPause = time.Minute
)

// Ended shows on the consoles that the agent has ended without being told to,
// with what it said last: on a node that nobody can log in to, that is all there
// is. It says so once a minute at most. isToldToStop reports whether systemd stops
// the agent: one that took too long for that has not crashed, and does not start
// again.
func Ended(
	root string, e End, isToldToStop func() bool, consoles *console.Printer, now time.Time,
) error {
	if !e.isCrash() || isToldToStop() {
		return nil
	}

	name := filepath.Join(root, endedPath)
	if before, err := os.Stat(name); err == nil && now.Before(before.ModTime().Add(endedPause)) &&
		!now.Before(before.ModTime()) {
		return nil
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return err
	}
	if err := os.Chtimes(name, now, now); err != nil {
		return err
	}

	dir, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer dir.Close()

	s := e.in(saidBefore(dir))
	consoles.Announced(s.Generation)
	consoles.Show(s, true)
	return nil
}

// in returns the status of an agent that has ended, after it said s.
func (e End) in(s status.Status) status.Status {
	s.Phase = status.Failed
	s.Awaited = nil
	s.Error = &status.Error{
		Problem: "the node agent has ended: " + e.text() + "; systemd starts it again",
		Hint:    fault.AgentEnded.Hint(),
		Code:    fault.AgentEnded,
	}
	return s
}

// text says how it ended.
func (e End) text() string {
	switch {
	case e.Result == "watchdog":
		return "it hung, and was killed by its watchdog"
	case e.Result == "timeout":
		return "it was not ready or did not stop in time, and was killed"
	case e.Result == "oom-kill":
		return "the kernel killed it for want of memory"
	case e.Code == "killed", e.Code == "dumped":
		return "signal " + e.Status
	case e.Code == "exited":
		return "exit status " + e.Status
	}
	return e.Result
}
