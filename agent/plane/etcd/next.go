package etcd

import (
	"fmt"
	"time"

	"github.com/loam-os/loam/agent/volume"
)

// Action is what the node can do for etcd.
type Action string

// Actions.
const (
	// Nothing means that all is well, or that only an operator can do more.
	Nothing Action = ""
	// Compact drops all revisions before the current one.
	Compact Action = "compact"
	// Defragment writes the file again without its free pages. etcd answers
	// nothing meanwhile.
	Defragment Action = "defragment"
	// Disarm ends the NOSPACE alarm of this member.
	Disarm Action = "disarm"
)

// Step is one action, and why.
type Step struct {
	Action Action
	// Reason is why the action, or why there is none, "" if all is well.
	Reason string
	// Revision is the revision for Compact, Member the member for Disarm.
	Revision int64
	Member   uint64
}

// Last is what the node did last. The zero Last is that of a node that has just
// started; nothing of it is kept on disk, because a file that was defragmented
// has no free pages that would ask for it again.
type Last struct {
	// Revision is the revision that etcd was compacted to.
	Revision int64

	// Unsure is whether more of the file may be free than etcd says. Pages that a
	// compaction has freed count as in use until the next write if a reader, which
	// etcd has itself, still sees them. A defragmentation makes sure.
	Unsure bool

	// Compacted, Defragmented and Disarmed are when it was tried last.
	Compacted    time.Time
	Defragmented time.Time
	Disarmed     time.Time
}

const (
	// minFragmented is the size from which on a file is worth to be defragmented:
	// below, it takes no time to read and no room to speak of.
	minFragmented = 100 << 20

	// defragmentPause is the least time between two defragmentations of an etcd
	// that works, because clients wait meanwhile.
	defragmentPause = time.Hour

	// alarmPause is the same with a NOSPACE alarm. Clients wait for the end of it,
	// and something must have been deleted, or a fifth of the quota written, since
	// the last one.
	alarmPause = 5 * time.Minute

	// stepPause is the least time between two compactions, or two disarmed
	// alarms: without it, deletes that go on would keep one look busy for ever.
	stepPause = 30 * time.Second
)

// Next decides what to do about etcd, one step at a time. Steps end: at one time,
// no action comes twice.
//
// With a NOSPACE alarm, etcd is compacted first, since the API server cannot: it
// records its compactions by a write. Then comes a defragmentation, and then the
// alarm ends, if there is room. An etcd that stays full of data is defragmented
// again only after something was deleted.
//
// Without an alarm, the API server has compacted each five minutes, and a further
// compaction would only end the lists that its clients read in pages.
func Next(s State, now time.Time, last Last) Step {
	switch {
	case s.has(Corrupt):
		return Step{Reason: "the data is damaged"}
	case s.Leader == 0:
		return Step{Reason: "there is no leader"}
	case s.Quota <= 0:
		return Step{Reason: "the quota is not known"}
	case s.owns(NoSpace):
		return nextWithoutSpace(s, now, last)
	case s.has(NoSpace):
		return Step{Reason: "the alarm is of another member"}
	}
	return nextFragmented(s, now, last)
}

func nextWithoutSpace(s State, now time.Time, last Last) Step {
	switch {
	case s.fits(s.Size) && due(now, last.Disarmed, stepPause):
		return Step{
			Action: Disarm,
			Member: s.Member,
			Reason: fmt.Sprintf("the file has only %s now", volume.FormatSize(s.Size)),
		}
	case s.fits(s.Size):
		return Step{Reason: "the alarm was disarmed a moment ago"}

	case s.Revision > last.Revision && due(now, last.Compacted, stepPause):
		return Step{
			Action:   Compact,
			Revision: s.Revision,
			Reason:   "the file has reached its quota",
		}

	case !s.fits(s.InUse) && !last.Unsure:
		return Step{Reason: "the quota is full of data"}
	case !due(now, last.Defragmented, alarmPause):
		return Step{Reason: "etcd was defragmented minutes ago"}
	}
	return Step{
		Action: Defragment,
		Reason: fmt.Sprintf("the file has reached its quota, and %s are in use",
			volume.FormatSize(s.InUse)),
	}
}

// nextFragmented: in a cluster of several members, two that are defragmented at
// the same time would leave it without a majority.
func nextFragmented(s State, now time.Time, last Last) Step {
	switch {
	case s.Size < minFragmented || s.InUse >= s.Size/2:
		return Step{}
	case s.Members > 1:
		return Step{Reason: "there are other members"}
	case !due(now, last.Defragmented, defragmentPause):
		return Step{Reason: "etcd was defragmented within the last hour"}
	}
	return Step{
		Action: Defragment,
		Reason: fmt.Sprintf("less than half of the file of %s is in use",
			volume.FormatSize(s.Size)),
	}
}

// due reports whether something may be done again.
func due(now, before time.Time, pause time.Duration) bool {
	return before.IsZero() || now.Sub(before) >= pause
}

// After returns l after a step was tried at that time; err is why it failed.
func (l Last) After(step Step, now time.Time, err error) Last {
	switch step.Action {
	case Compact:
		l.Compacted = now
		if err == nil {
			l.Revision = step.Revision
			l.Unsure = true
		}
	case Defragment:
		l.Defragmented = now
		if err == nil {
			l.Unsure = false
		}
	case Disarm:
		l.Disarmed = now
	case Nothing:
	}
	return l
}
