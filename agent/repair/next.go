package repair

import (
	"cmp"

	"github.com/loam-os/loam/agent/status"
)

// Op is a step of a repair.
type Op string

const (
	// CountRepair counts this repair in the record.
	CountRepair Op = "count the repair"
	// Preen repairs with e2fsck -p what loses nothing.
	Preen Op = "e2fsck -p"
	// Judge asks e2fsck -n what is wrong.
	Judge Op = "e2fsck -n"
	// SaveLog writes the log to the ESP.
	SaveLog Op = "save the log"
	// Force repairs with e2fsck -y, which may remove files.
	Force Op = "e2fsck -y"
	// Journal makes a journal anew, after e2fsck removed one that was damaged.
	Journal Op = "tune2fs"
	// KeepLog mounts the partition and stores the log on it.
	KeepLog Op = "keep the log"
	// RecordRepaired records that the partition is repaired.
	RecordRepaired Op = "record the repair"
	// KeepAside copies the partition to the ESP, if there is room.
	KeepAside Op = "keep a copy"
	// CountReset counts the reset in the record.
	CountReset Op = "count the reset"
	// Mark marks the partition: the next boot formats it.
	Mark Op = "mark to be formatted"
	// Restart restarts the machine.
	Restart Op = "restart"
	// Stay ends the repair: the node runs with its state in memory.
	Stay Op = "stay in memory"
)

const (
	// maxRepairs is how many repairs there may be within a day. More than one,
	// as a power cut may have ended some.
	maxRepairs = 3
	// maxResets is how many resets there may be within a day.
	maxResets = 2
	// maxForced is how often e2fsck -y runs in a boot: sometimes it finds more
	// when it has repaired the first.
	maxForced = 5
)

// View is the input of [Next].
type View struct {
	// Present means that there is a state partition, Ext4 that it has, or had,
	// a file system of ours.
	Present, Ext4 bool

	// Reset means that machine.yaml has state.onDamage: reset.
	Reset bool

	// Record is what the next boot reads. Before is the state that the last
	// repair recorded. Uncounted says why the record cannot be read or written; ""
	// if it can.
	Record    Record
	Before    status.RepairState
	Uncounted string

	// Counted, Preened, LogSaved, LogKept, Recorded, Aside and Marked mean that
	// the step was done in this boot. Forced counts Force.
	Counted, Preened, LogSaved, LogKept, Recorded, Aside, Marked bool
	Forced                                                       int

	// Judged means that Judge was done since the last change, and Clean that it
	// found nothing the last time.
	Judged, Clean bool

	// NoJournal means that the file system has no journal. Without one, a power
	// cut would damage it again.
	NoJournal bool

	// Failed means that a step failed that no other can replace. Aborted means
	// that e2fsck did not come to an end, so that nothing is known about the
	// partition.
	Failed, Aborted bool
}

// Next returns the next step.
func Next(v View) Op {
	switch {
	case !v.Present, v.Aborted && v.Counted:
		return Stay
	case v.Marked && !v.Failed:
		return Restart
	case v.mayRepair():
		return nextRepair(v)
	case v.mayReset():
		return nextReset(v)
	}
	return Stay
}

// mayRepair reports whether the repair can begin, or go on.
func (v View) mayRepair() bool {
	switch {
	case !v.Ext4, v.Failed:
		return false
	case !v.Counted:
		return v.Record.Repairs < maxRepairs
	}
	return !v.Judged || v.Clean || v.Forced < maxForced
}

func nextRepair(v View) Op {
	switch {
	case !v.Counted:
		return CountRepair
	case !v.Preened:
		return Preen
	case !v.Judged:
		return Judge
	case !v.Clean && !v.LogSaved:
		return SaveLog
	case !v.Clean:
		return Force
	case v.NoJournal:
		return Journal
	case !v.LogKept:
		return KeepLog
	case !v.Recorded:
		return RecordRepaired
	case v.Uncounted != "":
		return Stay
	}
	return Restart
}

// mayReset reports whether the partition may lose what it holds. A repair must
// have come to its end: a power cut is no reason to lose anything. Nor is a
// partition in which e2fsck finds nothing, as something else keeps the node from
// it, nor an e2fsck without a verdict after a repair that had one.
func (v View) mayReset() bool {
	switch {
	case !v.Reset, v.Uncounted != "", v.Marked, v.Clean:
		return false
	case v.Aborted && v.Before != status.RepairFailed:
		return false
	case !v.Recorded && v.Record.Resets >= maxResets:
		return false
	}
	return !v.Ext4 || v.Counted || (v.Before != "" && v.Before != status.Repairing)
}

// nextReset asks e2fsck first if it has not run in this boot.
func nextReset(v View) Op {
	isAsked := v.Ext4 && !v.Counted && !v.Aborted
	switch {
	case isAsked && !v.Preened:
		return Preen
	case isAsked && !v.Judged:
		return Judge
	case !v.Aside:
		return KeepAside
	case !v.Recorded:
		return CountReset
	}
	return Mark
}

// why says why the node stays as it is, and what an operator can do.
func (v View) why() (problem, hint string) {
	const (
		notHelped = "the repairs of the last day did not help"
		reset     = "with `state: {onDamage: reset}` in machine.yaml, a restart formats it, " +
			"and all that it holds is lost"
	)
	switch {
	case v.Clean && v.Counted && !v.Failed:
		return "it is repaired, but a restart cannot be counted: " + v.Uncounted,
			"restart the machine: `systemctl reboot`"
	case v.Clean:
		return cmp.Or(v.Record.Problem, notHelped),
			"e2fsck finds nothing wrong with it, so it is never formatted: `dmesg` may say what " +
				"else is; then restart the machine: `systemctl reboot`"
	case v.Aborted:
		return v.Record.Problem, "`e2fsck -fy " + v.Record.Device + "` in a debug shell has no such " +
			"limits; a restart tries again, three times a day"
	case v.Record.Problem != "":
		return v.Record.Problem, reset
	case !v.Present:
		return "the disk has no state partition", "install the node again"
	case !v.Ext4:
		return "it has no file system of this node", reset
	case !v.Counted:
		return notHelped, "with `state: {onDamage: reset}` in machine.yaml, a restart formats it " +
			"unless e2fsck finds nothing wrong with it, and what it holds is lost then"
	}
	return "e2fsck cannot repair it", reset
}
