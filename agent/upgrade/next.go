package upgrade

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/hint"
)

// OpKind is the kind of a step.
type OpKind string

const (
	// Nothing is left to do.
	Nothing OpKind = ""
	// Observe waits for a verdict on the trial.
	Observe OpKind = "observe the trial"
	// Relink makes another entry, To, of the UKI of File.
	Relink OpKind = "relink"
	// Drop removes an entry, and its UKI unless another entry has it, too.
	Drop OpKind = "drop"
	// Empty marks the slot as empty.
	Empty OpKind = "empty the slot"
	// Fill fills the slot with the target, and verifies it.
	Fill OpKind = "fill the slot"
	// Seal marks the slot as holding the target.
	Seal OpKind = "seal the slot"
	// StageUKI writes the target's UKI to the ESP without an entry.
	StageUKI OpKind = "stage the UKI"
	// Arm records in the journal that the entry comes next, with the node's
	// health.
	Arm OpKind = "arm"
	// Verify checks that the slot holds a target that was there before.
	Verify OpKind = "verify the slot"
	// Link makes the entry To of the staged UKI. From then on it is booted.
	Link OpKind = "link"
	// Park renames an entry so that it is booted only if all others are bad.
	Park OpKind = "park"
	// Rename changes the tries of an entry.
	Rename OpKind = "rename"
	// CopyUKI is StageUKI with the UKI of the running system.
	CopyUKI OpKind = "copy the UKI"
	// Conclude records how a drill went.
	Conclude OpKind = "conclude the drill"
	// Crash makes the kernel panic.
	Crash OpKind = "panic"
	// Restore makes the entry To of the running system from the recovery
	// entry's UKI, in a new directory if the old one cannot be read.
	Restore OpKind = "restore the boot entry"
	// Reboot wants a restart, when the policy allows it.
	Reboot OpKind = "reboot"
	// Remember records that the target failed, and why.
	Remember OpKind = "remember the failure"
	// Finish removes the journal.
	Finish OpKind = "finish"
)

// Op is one step. After a power cut it is done or not done.
type Op struct {
	Kind OpKind
	// File is the entry that the step is about.
	File string
	// To is the name that the step gives.
	To string
	// Reason says why, for an operator.
	Reason string
}

// Tries is how often the loader boots a system that does not report that it is
// well.
const Tries = 3

// Next returns the next step. It repairs first: a corrupt or double entry could
// be booted for ever.
func Next(v View) Op {
	if op := repair(v); op.Kind != Nothing {
		return op
	}

	j := v.Journal
	switch {
	case j == nil:
		return withoutJournal(v)
	case j.Drill != nil:
		return drill(v)
	case v.Running.RootHash == j.Target.RootHash && j.Canceled:
		return canceledOnTrial(v)
	case v.Running.RootHash == j.Target.RootHash:
		return onTrial(v)
	case v.Running.RootHash != j.From.RootHash:
		return Op{
			Kind:   Nothing,
			Reason: fmt.Sprintf("neither %s nor %s runs", j.Target.Version, j.From.Version),
		}
	case j.Canceled:
		return canceled(v)
	case slices.ContainsFunc(v.Failed, func(f Failure) bool {
		return f.RootHash == j.Target.RootHash
	}):
		return afterFailure(v)
	case j.Phase == Armed:
		return armed(v)
	}

	return stage(v)
}

// repair returns the step that repairs what a torn write of the firmware left.
// It leaves entries alone that are not Loam's.
func repair(v View) Op {
	found := find(v, v.Running.RootHash)
	if found == nil && v.Recovery == v.Running.RootHash &&
		!slices.ContainsFunc(v.Entries, func(e disk.Entry) bool { return e.RootHash == v.Recovery }) {
		return Op{
			Kind:   Restore,
			To:     v.entryToMake(),
			Reason: "it is gone, and the recovery entry has its UKI",
		}
	}

	for _, e := range v.Entries {
		switch {
		case !e.Orphan || e.RootHash == "":
		case found != nil:
			return Op{
				Kind:   Drop,
				File:   e.File,
				Reason: "its long name is torn: it would be booted without counting tries",
			}
		case e.RootHash == v.Running.RootHash:
			return Op{
				Kind:   Relink,
				File:   e.File,
				To:     v.entryToMake(),
				Reason: "its long name is torn, and it is the only entry of the running system",
			}
		}
	}

	if v.Journal != nil && v.Journal.Drill != nil {
		return Op{}
	}

	for i, e := range v.Entries {
		for _, other := range v.Entries[i+1:] {
			if e.RootHash != "" && e.ImageID != "" && e.Version == other.Version &&
				e.ImageID == other.ImageID && e.RootHash == other.RootHash {
				return Op{
					Kind:   Drop,
					File:   worse(e, other).File,
					Reason: "the entry is there twice, as a rename was torn",
				}
			}
		}
	}

	return Op{}
}

// entryToMake returns a name for the running system's entry. A system that is
// on trial stays on trial.
func (v View) entryToMake() string {
	n, err := bootentry.Parse(v.Entry)
	if err != nil || (v.Journal != nil && v.Journal.Target == v.Running) {
		return v.Entry
	}

	n.Counted = false
	n.TriesLeft = 0

	if name, err := bootentry.Format(n); err == nil {
		return name
	}

	return v.Entry
}

// worse returns the entry of two of one system that says less about what
// happened: the one with more tries left, because the loader had begun to take
// one. A blessed entry is never worse, a parked one always.
func worse(a, b disk.Entry) disk.Entry {
	switch {
	case !a.Counted, b.Parked():
		return b
	case !b.Counted, a.Parked():
		return a
	case a.TriesLeft < b.TriesLeft:
		return b
	}
	return a
}

func find(v View, rootHash string) *disk.Entry { return disk.Find(v.Entries, rootHash) }

// rename gives an entry that many tries, or none if counted is false.
func rename(e disk.Entry, counted bool, left, done int, reason string) Op {
	n := e.Name
	n.Counted = counted
	n.TriesLeft = left
	n.TriesDone = done

	to, err := bootentry.Format(n)
	if err != nil {
		return Op{Kind: Nothing, Reason: hint.Line(err)}
	}

	return Op{
		Kind:   Rename,
		File:   e.File,
		To:     to,
		Reason: reason,
	}
}

// withoutJournal returns the next step of a node with nothing under way. A
// system whose entry counts tries is on trial, however it came.
func withoutJournal(v View) Op {
	e := find(v, v.Running.RootHash)
	switch {
	case e == nil || !e.Counted:
		return Op{}
	case e.Parked():
		return unpark(*e)
	}
	return judged(v, *e)
}

// park makes the loader start another entry first; unpark ends that.
func park(e disk.Entry, reason string) Op {
	op := rename(e, true, 0, 0, reason)
	if op.Kind == Rename {
		op.Kind = Park
	}
	return op
}

func unpark(e disk.Entry) Op { return rename(e, false, 0, 0, "it goes first again") }

// judged returns what follows from a verdict on the running system. A bad
// system is left only if the loader has another one to start.
func judged(v View, e disk.Entry) Op {
	bad := e.Name
	bad.TriesLeft = 0
	bad.TriesDone = min(9, e.TriesDone+e.TriesLeft)
	elsewhere := slices.ContainsFunc(v.Entries, func(o disk.Entry) bool {
		return o.File != e.File && o.ImageID != "" && bootentry.Compare(o.Name, bad) < 0
	})

	switch {
	case v.Verdict.Word == Good:
		return rename(e, false, 0, 0, v.Verdict.Reason)
	case v.Verdict.Word == Bad && !elsewhere:
		return Op{
			Kind:   Observe,
			Reason: "there is no other system to go back to: " + v.Verdict.Reason,
		}
	case v.Verdict.Word == Bad && e.Bad():
		return Op{Kind: Reboot, Reason: v.Verdict.Reason}
	case v.Verdict.Word == Bad:
		return rename(e, true, 0, bad.TriesDone, v.Verdict.Reason)
	}

	return Op{Kind: Observe, Reason: v.Verdict.Reason}
}

// onTrial returns the next step while the target runs.
func onTrial(v View) Op {
	e := find(v, v.Running.RootHash)
	switch {
	case e == nil: // It was not started by an entry.
		return Op{Kind: Nothing, Reason: "the running system has no boot entry"}
	case e.Counted:
		return judged(v, *e)
	}
	return Op{Kind: Finish, Reason: "the upgrade is done"}
}

// armed returns the next step in the old system when the target's entry is
// there or about to be.
func armed(v View) Op {
	e := find(v, v.Journal.Target.RootHash)
	switch {
	case e == nil:
		return stage(v) // The power was cut before the entry was made.
	case e.Parked():
		return Op{
			Kind:   Relink,
			File:   e.File,
			To:     tried(*e),
			Reason: "it was there before, and gets tries",
		}
	case !e.Counted: // It has proved itself, and was rolled back since.
		return Op{Kind: Finish, Reason: "the target was blessed before"}
	case e.TriesDone > 0 || e.Bad():
		return Op{
			Kind: Remember,
			Reason: cmp.Or(v.Journal.Reason,
				fmt.Sprintf("it did not say that it is well in %d boots", e.TriesDone)),
		}
	}

	run := find(v, v.Running.RootHash)
	if run != nil && !run.Parked() && bootentry.Compare(run.Name, e.Name) <= 0 {
		return park(*run, "the loader starts the newest")
	}

	if v.Journal.Missed >= maxMissed {
		return Op{Kind: Remember, Reason: NotStarted}
	}

	return Op{Kind: Reboot, Reason: "to try " + v.Journal.Target.Version}
}

// maxMissed is how many restarts may end in the old system without a try.
const maxMissed = 2

// NotStarted is the reason of a release that failed because it was never tried.
const NotStarted = "the loader does not start it"

// HintOf returns what an operator can do about the reason of a release that failed,
// "" if the reason says it.
func HintOf(reason string) string {
	if reason == NotStarted {
		return "does the firmware boot from another disk, or by the network?"
	}
	return ""
}

// canceled returns the next step in the old system when an operator does not want
// the upgrade any more. The old system goes first before the target's entry goes:
// a power cut between the two leaves either of them to start.
func canceled(v View) Op {
	const reason = "the upgrade was canceled"
	if run := find(v, v.Running.RootHash); run != nil && run.Parked() {
		return unpark(*run)
	}

	e := find(v, v.Journal.Target.RootHash)
	switch {
	case e == nil, v.Journal.Present && e.Parked():
		return Op{Kind: Finish, Reason: reason}
	case v.Journal.Present:
		return park(*e, reason)
	}
	return Op{Kind: Drop, File: e.File, Reason: reason}
}

// canceledOnTrial returns the next step while a target runs that was canceled: the
// power was cut before its entry was gone. The machine falls back, if there is
// another system; else it is a trial like any other.
func canceledOnTrial(v View) Op {
	bad := v
	bad.Verdict = Verdict{Word: Bad, Reason: "the upgrade was canceled"}
	if op := onTrial(bad); op.Kind != Observe {
		return op
	}
	return onTrial(v)
}

// tried returns the name of an entry with all its tries.
func tried(e disk.Entry) string {
	n := e.Name
	n.Counted = true
	n.TriesLeft = Tries
	n.TriesDone = 0

	name, err := bootentry.Format(n)
	if err != nil {
		return e.File // Cannot be: the name was parsed.
	}

	return name
}

// stage returns the next step towards a filled slot and an entry, or uses what
// is there already.
func stage(v View) Op {
	j := v.Journal
	if find(v, v.Running.RootHash) == nil { // One of the others may be the running system's.
		return Op{Kind: Nothing, Reason: "the running system has no boot entry"}
	}

	sealed := v.Holds == j.Target.RootHash
	there := find(v, j.Target.RootHash)
	if there != nil && (!sealed || there.ImageID == "" || (there.Counted && !there.Parked())) {
		there = nil
	}

	for _, e := range v.Entries {
		if e.RootHash != v.Running.RootHash && (there == nil || e.File != there.File) {
			// Such an entry boots what the slot holds, or nothing.
			return Op{Kind: Drop, File: e.File, Reason: "its slot is to hold another system"}
		}
	}

	switch {
	case there != nil && !v.Filled:
		return Op{Kind: Verify}
	case there != nil && !there.Parked():
		return park(*there, "it gets tries when all else is ready")
	case there != nil:
		return Op{Kind: Arm}
	case j.Rollback:
		return Op{Kind: Finish, Reason: "the system to go back to is gone"}
	case v.Holds != "" && !sealed:
		return Op{Kind: Empty}
	case !v.Filled:
		return Op{Kind: Fill}
	case !sealed:
		return Op{Kind: Seal}
	case !v.StagedUKI:
		return Op{Kind: StageUKI}
	case j.Phase != Armed:
		return Op{Kind: Arm}
	}

	run, err := bootentry.Parse(v.Entry)
	if err == nil {
		run.Version = j.Target.Version
		v.Entry, err = bootentry.Format(run)
	}

	if err != nil {
		return Op{Kind: Nothing, Reason: hint.Line(err)} // Preflight has refused it before.
	}

	return Op{Kind: Link, To: v.Entry}
}

// afterFailure returns the next step in the old system once the failure is
// recorded: it removes what is left of the target.
func afterFailure(v View) Op {
	if run := find(v, v.Running.RootHash); run != nil && run.Parked() {
		return unpark(*run)
	}
	if e := find(v, v.Journal.Target.RootHash); e != nil {
		return Op{Kind: Drop, File: e.File, Reason: "the system has failed"}
	}
	return Op{Kind: Finish, Reason: "the upgrade has failed"}
}
