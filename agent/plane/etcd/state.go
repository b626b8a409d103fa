package etcd

import (
	"errors"
	"fmt"
	"time"

	"github.com/loam-os/loam/agent/plane/etcd/disk"
	"github.com/loam-os/loam/agent/volume"
	"github.com/loam-os/loam/hint"
)

// Alarms of etcd (etcd/api/etcdserverpb/rpc.proto, AlarmType).
const (
	NoSpace = "NOSPACE"
	Corrupt = "CORRUPT"
)

// State is what one look at a member of etcd shows.
type State struct {
	// Version is the version of etcd, such as 3.6.16.
	Version string

	// Size is the size of the database file, InUse its part with data, and Quota
	// the size at which etcd refuses writes. All are in bytes.
	Size  int64
	InUse int64
	Quota int64

	// Revision is the revision of the data, which each write raises. RaftIndex
	// counts all entries of the log.
	Revision  int64
	RaftIndex uint64

	// Member is the ID of this member, Leader of the leader, 0 without one.
	// Members is the number of members.
	Member  uint64
	Leader  uint64
	Members int

	// Alarms are the alarms of all members.
	Alarms []Alarm

	// Fsyncs are the syncs of the log since etcd has started. FsyncP99 is the
	// 99th percentile of the Recent ones: those since the last look, all at the
	// first.
	Fsyncs   Histogram
	FsyncP99 time.Duration
	Recent   uint64

	// MetricsError is why Fsyncs is missing. The rest does not need it.
	MetricsError error

	// Measured is the 99th percentile of a sync that decided on the timing of etcd, 0
	// if none did.
	Measured time.Duration
}

// Alarm is an alarm of a member.
type Alarm struct {
	Member uint64
	Kind   string
}

// Limits of what is well.
const (
	// roomPercent is the share of the quota which a file must be below before
	// etcd may write again: with less, the alarm would soon be back. It is where
	// a warning begins, too.
	roomPercent = 80

	// minRecent is the number of syncs that a 99th percentile needs.
	minRecent = 100

	// minTimed is the number of syncs after which the disk may be called slower than
	// its timing: a machine that starts reads and writes much else.
	minTimed = 1000
)

// Condition is how etcd is, in a word.
type Condition string

// Conditions, the worst first. A log shows when one of them follows another.
const (
	// Away means that etcd does not answer.
	Away Condition = "away"
	// Damaged means that etcd has a CORRUPT alarm.
	Damaged Condition = "damaged"
	// Full means that etcd refuses writes because of its data, Shrinking that it
	// does because of pages that are free.
	Full      Condition = "full"
	Shrinking Condition = "shrinking"
	// Leaderless means that the members have no leader.
	Leaderless Condition = "no-leader"
	// Filling means that etcd will soon be full.
	Filling Condition = "filling"
	// Slow means that the disk is, and Slower that it is too slow for the timing of
	// etcd.
	Slow   Condition = "slow"
	Slower Condition = "slower"
	// Unmetered means that the metrics cannot be read.
	Unmetered Condition = "no-metrics"
	// Well means that nothing is wrong.
	Well Condition = "ok"
)

// Condition returns how etcd is.
func (s State) Condition() Condition {
	switch {
	case s.has(Corrupt):
		return Damaged
	case s.has(NoSpace) && s.fits(s.InUse):
		return Shrinking
	case s.has(NoSpace):
		return Full
	case s.Leader == 0:
		return Leaderless
	case s.Quota > 0 && !s.fits(s.InUse):
		return Filling
	case s.Recent >= minRecent && s.FsyncP99 >= disk.SlowFsync:
		return Slow
	case s.outgrown():
		return Slower
	case s.MetricsError != nil:
		return Unmetered
	}
	return Well
}

// Problem returns what is wrong, with a hint for the operator, nil if nothing is.
func (s State) Problem() error {
	sizes := fmt.Sprintf("%s of %s are in use",
		volume.FormatSize(s.InUse), volume.FormatSize(s.Quota))

	switch s.Condition() {
	case Damaged:
		return hint.With(errors.New("etcd has found that its data is damaged (CORRUPT)"),
			"the node leaves the alarm on: copy the data of etcd away, and compare it with what "+
				"should be there; a reset of the node makes a new cluster")

	case Shrinking:
		return hint.With(fmt.Errorf("etcd refuses writes (NOSPACE): %s", sizes),
			"wait some minutes: the node makes the file smaller by itself")

	case Full:
		return hint.With(fmt.Errorf("etcd is full of data and refuses writes (NOSPACE): %s", sizes),
			"delete ConfigMaps, Secrets or Events that no program needs, which etcd still accepts; "+
				"the node does the rest within minutes")

	case Leaderless:
		return hint.With(errors.New("etcd has no leader"), "`loam logs etcd.service` says more")

	case Filling:
		return hint.With(fmt.Errorf("etcd is nearly full: %s", sizes),
			"delete objects that no program needs: at its quota, etcd refuses writes")

	case Slow:
		return hint.With(fmt.Errorf("the disk of etcd is slow: a sync takes up to %s",
			disk.FormatDuration(s.FsyncP99)),
			"move what writes much away from the disk, or take a faster one")

	case Slower:
		return hint.With(fmt.Errorf(
			"the timing of etcd (%s) is too short for its disk: a sync takes up to %s",
			s.Timing(), disk.FormatDuration(s.allP99())),
			"move what writes much away from the disk, or take a faster one; an etcd without "+
				"other members works all the same")

	case Unmetered:
		return fmt.Errorf("metrics of etcd: %w", s.MetricsError)
	}
	return nil
}

// allP99 returns the 99th percentile of all syncs since etcd has started. In contrast
// to that of the recent ones, it does not change from minute to minute.
func (s State) allP99() time.Duration { return s.Fsyncs.Quantile(0.99) }

// Timing returns the timing that etcd has.
func (s State) Timing() disk.Timing { return disk.TimingOf(s.Measured) }

// outgrown reports whether the disk is too slow for the timing of etcd.
func (s State) outgrown() bool {
	return s.Fsyncs.Total() >= minTimed &&
		disk.TimingOf(s.allP99()).Heartbeat > s.Timing().Heartbeat
}

// has reports whether any member has an alarm of that kind.
func (s State) has(kind string) bool {
	for _, alarm := range s.Alarms {
		if alarm.Kind == kind {
			return true
		}
	}
	return false
}

// owns reports whether this member has an alarm of that kind.
func (s State) owns(kind string) bool {
	for _, alarm := range s.Alarms {
		if alarm == (Alarm{s.Member, kind}) {
			return true
		}
	}
	return false
}

// fits reports whether a file of that size leaves etcd room to write.
func (s State) fits(size int64) bool { return size < s.Quota/100*roomPercent }

// String returns the sizes and times, such as "12 MiB of 2 GiB, fsync p99 4 ms".
// Of a file of 100 MiB or more, it says how much is not in use, and of a timing that
// is not etcd's own, which it is.
func (s State) String() string {
	text := fmt.Sprintf("%s of %s", volume.FormatSize(s.Size), volume.FormatSize(s.Quota))
	if s.Size >= minFragmented && s.Size-s.InUse > s.Size/10 {
		text += fmt.Sprintf(" (%s in use)", volume.FormatSize(s.InUse))
	}
	if s.Recent > 0 {
		text += ", fsync p99 " + disk.FormatDuration(s.FsyncP99)
	}
	if s.Timing() != disk.DefaultTiming {
		text += ", " + s.Timing().String()
	}
	return text
}
