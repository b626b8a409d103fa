package upgrade

import (
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/firmware/bootentry"
)

// System is one version of the image.
type System struct {
	Version string `json:"version"`
	// RootHash is the verity root hash, 64 hex digits: what the system is.
	RootHash string `json:"rootHash"`
}

// Phase is the stage of an upgrade.
type Phase string

const (
	// Staging fills the slot. Nothing boots from it.
	Staging Phase = "staging"
	// Armed has, or is about to have, a boot entry.
	Armed Phase = "armed"
	// Over is a drill that has been concluded.
	Over Phase = "over"
)

// Journal is the upgrade under way, in /var/lib/loam/upgrade.json.
type Journal struct {
	Phase  Phase  `json:"phase"`
	Target System `json:"target"`

	// From is the system that began the upgrade, and the fallback.
	From System `json:"from"`

	// Ref is where the index that describes Target was.
	Ref string `json:"ref"`

	// Replaces is the root hash of the system that the slot held, "" if none is
	// known.
	Replaces string `json:"replaces,omitempty"`

	// Boot is the kernel's ID of the last boot of From.
	Boot string `json:"boot,omitempty"`
	// FromBoots are the IDs of all boots of From since the upgrade was armed,
	// starting with the boot that armed it.
	FromBoots []string `json:"fromBoots,omitempty"`
	// Missed is how many boots of From there were since the entry was made that
	// the loader had not tried it before.
	Missed int `json:"missed,omitempty"`
	// Baseline is the health of From when the upgrade was armed.
	Baseline Health `json:"baseline,omitempty"`

	// Began is the wall clock when the upgrade began.
	Began time.Time `json:"began"`
	// Epoch is the security epoch of Target.
	Epoch int `json:"epoch"`
	// Stay leaves the restart to the operator.
	Stay bool `json:"stay,omitempty"`

	// Rollback uses Target as it is in its slot, with its own configuration.
	Rollback bool `json:"back,omitempty"`

	// AtOnce does not wait for the window of restarts.
	AtOnce bool `json:"atOnce,omitempty"`

	// Present says that Target had a boot entry when the upgrade began: it stays a
	// system to roll back to if the upgrade is canceled.
	Present bool `json:"present,omitempty"`
	// Canceled says that an operator does not want the upgrade any more.
	Canceled bool `json:"canceled,omitempty"`

	// Drill is set during a drill. Target is From then.
	Drill *Drilling `json:"drill,omitempty"`

	// Reason is why Target failed, as it said itself; "" if it could not.
	Reason string `json:"reason,omitempty"`
}

// Failure is a system that failed and is not tried again by itself.
type Failure = status.FailedSystem

// Entry is a boot entry: a UKI in \EFI\Linux.
type Entry struct {
	bootentry.Name

	// File is the name in the directory.
	File string
	// RootHash is what the UKI boots, "" if that cannot be read.
	RootHash string
	size     int64

	// Orphan says that the long name of the entry is corrupt: the loader sees a
	// short name, without tries.
	Orphan bool
}

// View is the input of [Next].
type View struct {
	// Running is the system of this boot.
	Running System

	// Entry is the name of an entry of Running before its first try.
	Entry string

	// Holds is the root hash of the system that the other slot is marked to
	// hold, "" for none.
	Holds   string
	Entries []Entry

	// Recovery is the root hash of the system that the recovery entry starts,
	// "" for none.
	Recovery string

	// Journal is nil without an upgrade.
	Journal *Journal
	Failed  []Failure

	// Filled says that this process has verified the other slot against the
	// journal's target.
	Filled bool
	// StagedUKI says that the target's UKI is on the ESP, ready for an entry.
	StagedUKI bool

	// Verdict is the judgement on the trial, if there is one.
	Verdict Verdict
}
