package upgrade

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/loam-os/loam/firmware/bootentry"
)

// OpKind is what an Op does.
type OpKind string

const (
	// Nothing is to be done.
	Nothing OpKind = ""
	// Observe the trial until there is a verdict.
	Observe OpKind = "observe the trial"
	// Relink makes another entry, To, of the UKI of File.
	Relink OpKind = "relink"
	// Drop takes an entry away, and its UKI unless another entry has the same.
	Drop OpKind = "drop"
	// Empty marks the slot as holding nothing.
	Empty OpKind = "empty the slot"
	// Fill makes the slot's content what the target is, and proves it.
	Fill OpKind = "fill the slot"
	// Seal marks the slot as holding the target.
	Seal OpKind = "seal the slot"
	// StageUKI writes the target's UKI where nothing boots it yet.
	StageUKI OpKind = "stage the UKI"
	// Arm notes in the journal that the entry comes next, with the node's
	// health.
	Arm OpKind = "arm"
	// Prove makes sure that the slot holds the target, which has been there all
	// along.
	Prove OpKind = "prove the slot"
	// Link makes the entry To of the staged UKI: from then on it is booted.
	Link OpKind = "link"
	// Rest gives an entry the name of one that is booted only if all others are
	// bad.
	Rest OpKind = "put to rest"
	// Rename gives an entry other tries, or none.
	Rename OpKind = "rename"
	// CopyUKI is StageUKI with that of the running system, Conclude notes how a
	// drill went, Crash has the kernel panic.
	CopyUKI  OpKind = "copy the UKI"
	Conclude OpKind = "conclude the drill"
	Crash    OpKind = "panic"
	// Restore makes the entry To of the running system of the recovery entry's
	// UKI, in a new directory if that cannot be read.
	Restore OpKind = "restore the boot entry"
	// Reboot is to be asked for, at the time that the node's owner allows.
	Reboot OpKind = "reboot"
	// Remember notes that the target has failed, and why.
	Remember OpKind = "remember the failure"
	// Finish forgets the journal.
	Finish OpKind = "finish"
)

// Op is one step, which is done or not done after a power cut.
type Op struct {
	Kind OpKind
	// File is the entry that it is about, To what that becomes.
	File, To string
	// Reason says why, for a person.
	Reason string
}

// Tries is how often the loader boots a system that does not say it is well.
const Tries = 3

// Next is what to do now. It mends before it goes on: an entry that is torn, or
// there twice, could be booted for ever.
func Next(v View) Op {
	if op := mend(v); op.Kind != Nothing {
		return op
	}

	j := v.Journal
	switch {
	case j == nil:
		return withoutJournal(v)
	case j.Drill != nil:
		return drill(v)
	case v.Running.RootHash == j.Target.RootHash:
		return onTrial(v)
	case v.Running.RootHash != j.From.RootHash:
		return Op{
			Kind:   Nothing,
			Reason: fmt.Sprintf("neither %s nor %s runs", j.Target.Version, j.From.Version),
		}
	case slices.ContainsFunc(v.Failed, func(f Failure) bool {
		return f.RootHash == j.Target.RootHash
	}):
		return afterFailure(v)
	case j.Phase == Armed:
		return armed(v)
	}

	return stage(v)
}

// mend settles what a torn write of the firmware's has left. What is not Loam's
// it leaves alone.
func mend(v View) Op {
	found := find(v, v.Running.RootHash)
	if found == nil && v.Recovery == v.Running.RootHash &&
		!slices.ContainsFunc(v.Entries, func(e Entry) bool { return e.RootHash == v.Recovery }) {
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

// entryToMake is a name for the running system's entry: one that is on trial
// goes on being so.
func (v View) entryToMake() string {
	n, err := bootentry.Parse(v.Entry)
	if err != nil || v.Journal != nil && v.Journal.Target == v.Running {
		return v.Entry
	}

	n.Counted = false
	n.TriesLeft = 0

	if name, err := bootentry.Format(n); err == nil {
		return name
	}

	return v.Entry
}

// worse is the one of two entries of one system that says less of what became
// of it: the one with more tries left, as the loader had begun to take one
// away; a blessed one stays, one at rest does not.
func worse(a, b Entry) Entry {
	switch {
	case !a.Counted, b.Resting():
		return b
	case !b.Counted, a.Resting():
		return a
	case a.TriesLeft < b.TriesLeft:
		return b
	}
	return a
}

func find(v View, rootHash string) *Entry {
	for i, e := range v.Entries {
		if e.RootHash == rootHash && !e.Orphan {
			return &v.Entries[i]
		}
	}
	return nil
}

// rename gives an entry those tries, none if it is not counted.
func rename(e Entry, counted bool, left, done int, reason string) Op {
	n := e.Name
	n.Counted = counted
	n.TriesLeft = left
	n.TriesDone = done

	to, err := bootentry.Format(n)
	if err != nil {
		return Op{Kind: Nothing, Reason: err.Error()}
	}

	return Op{
		Kind:   Rename,
		File:   e.File,
		To:     to,
		Reason: reason,
	}
}

// withoutJournal is a node with nothing under way. A system that still counts
// its tries is on trial, whoever brought it.
func withoutJournal(v View) Op {
	e := find(v, v.Running.RootHash)
	switch {
	case e == nil || !e.Counted:
		return Op{}
	case e.Resting():
		return wake(*e)
	}
	return judged(v, *e)
}

// rest has another entry go first, wake ends that.
func rest(e Entry, reason string) Op {
	op := rename(e, true, 0, 0, reason)
	if op.Kind == Rename {
		op.Kind = Rest
	}
	return op
}

func wake(e Entry) Op { return rename(e, false, 0, 0, "it goes first again") }

// judged is what a verdict on the running system leads to. One that is bad goes
// only if the loader has another to go to.
func judged(v View, e Entry) Op {
	bad := e.Name
	bad.TriesLeft = 0
	bad.TriesDone = min(9, e.TriesDone+e.TriesLeft)
	elsewhere := slices.ContainsFunc(v.Entries, func(o Entry) bool {
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

// onTrial is the target that runs.
func onTrial(v View) Op {
	e := find(v, v.Running.RootHash)
	switch {
	case e == nil: // Started by other means than its entry.
		return Op{Kind: Nothing, Reason: "the running system has no boot entry"}
	case e.Counted:
		return judged(v, *e)
	}
	return Op{Kind: Finish, Reason: "the upgrade is done"}
}

// armed is the old system, with the target's entry there or about to be.
func armed(v View) Op {
	e := find(v, v.Journal.Target.RootHash)
	switch {
	case e == nil:
		return stage(v) // The cut was before the entry.
	case e.Resting():
		return Op{
			Kind:   Relink,
			File:   e.File,
			To:     tried(*e),
			Reason: "it was there before, and gets tries",
		}
	case !e.Counted: // It was good once, and somebody has gone back since.
		return Op{Kind: Finish, Reason: "the target was blessed before"}
	case e.TriesDone > 0 || e.Bad():
		return Op{
			Kind: Remember,
			Reason: cmp.Or(v.Journal.Reason,
				fmt.Sprintf("it did not say that it is well in %d boots", e.TriesDone)),
		}
	}

	run := find(v, v.Running.RootHash)
	if run != nil && !run.Resting() && bootentry.Compare(run.Name, e.Name) <= 0 {
		return rest(*run, "the loader starts the newest")
	}

	if v.Journal.Missed >= maxMissed {
		return Op{Kind: Remember, Reason: notStarted}
	}

	return Op{Kind: Reboot, Reason: "to try " + v.Journal.Target.Version}
}

// maxMissed is how many restarts may come back to the old system without a try.
const maxMissed = 2

const notStarted = "the loader does not start it\n" +
	"hint: does the firmware boot from another disk, or by the network?"

// tried is the name of an entry that was never tried.
func tried(e Entry) string {
	n := e.Name
	n.Counted = true
	n.TriesLeft = Tries
	n.TriesDone = 0

	name, err := bootentry.Format(n)
	if err != nil {
		return e.File // It has such a name: it was parsed.
	}

	return name
}

// stage fills the slot and makes the entry, or takes those that are there.
func stage(v View) Op {
	j := v.Journal
	if find(v, v.Running.RootHash) == nil { // One of the others may be what starts it.
		return Op{Kind: Nothing, Reason: "the running system has no boot entry"}
	}

	sealed := v.Holds == j.Target.RootHash
	there := find(v, j.Target.RootHash)
	if there != nil && (!sealed || there.ImageID == "" || there.Counted && !there.Resting()) {
		there = nil
	}

	for _, e := range v.Entries {
		if e.RootHash != v.Running.RootHash && (there == nil || e.File != there.File) {
			// It boots what the slot holds, or nothing.
			return Op{Kind: Drop, File: e.File, Reason: "its slot is to hold another system"}
		}
	}

	switch {
	case there != nil && !v.Filled:
		return Op{Kind: Prove}
	case there != nil && !there.Resting():
		return rest(*there, "it gets tries when all else is ready")
	case there != nil:
		return Op{Kind: Arm}
	case j.Back:
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
		return Op{Kind: Nothing, Reason: err.Error()} // Refused before; see Preflight.
	}

	return Op{Kind: Link, To: v.Entry}
}

// afterFailure is the old system that has noted why the target is not tried
// again, and takes the rest of it away.
func afterFailure(v View) Op {
	if run := find(v, v.Running.RootHash); run != nil && run.Resting() {
		return wake(*run)
	}
	if e := find(v, v.Journal.Target.RootHash); e != nil {
		return Op{Kind: Drop, File: e.File, Reason: "the system has failed"}
	}
	return Op{Kind: Finish, Reason: "the upgrade has failed"}
}
