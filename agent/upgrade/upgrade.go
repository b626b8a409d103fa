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

// Phase is how far an upgrade is.
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

	// From is the system that began it, and that it falls back to.
	From System `json:"from"`

	// Ref is where the index that describes Target was.
	Ref string `json:"ref"`

	// Replaces is the root hash of the system that the slot held, "" if none is
	// known.
	Replaces string `json:"replaces,omitempty"`

	// Boot is the kernel's id of the last boot of From, Missed how many of them
	// there were since the entry was made in which the loader had not tried it
	// before.
	Boot   string `json:"boot,omitempty"`
	Missed int    `json:"missed,omitempty"`

	// Baseline is how From was when the upgrade was armed.
	Baseline Health `json:"baseline,omitempty"`

	// Began is the wall clock at the start, Epoch the security epoch of Target.
	Began time.Time `json:"began"`
	Epoch int       `json:"epoch"`

	// Stay leaves the restart to somebody else.
	Stay bool `json:"stay,omitempty"`

	// Back takes Target as it is in its slot, with its own configuration.
	Back bool `json:"back,omitempty"`

	// AtOnce does not wait for the window of restarts.
	AtOnce bool `json:"atOnce,omitempty"`

	// Drill is set in a drill, in which Target is From.
	Drill *Drilling `json:"drill,omitempty"`

	// Reason is why Target, which ran, has failed; "" if it could not tell.
	Reason string `json:"reason,omitempty"`
}

// Failure is a system that was tried and is not tried again by itself.
type Failure = status.FailedSystem

// Entry is a boot entry: a UKI in \EFI\Linux.
type Entry struct {
	bootentry.Name

	// File is the name in the directory, RootHash what the UKI boots, "" if
	// that cannot be read.
	File     string
	RootHash string
	size     int64

	// Orphan is an entry whose long name is torn: the loader sees it under a
	// short one, without tries.
	Orphan bool
}

// View is what Next goes by.
type View struct {
	// Running is the system of this boot.
	Running System

	// Entry is the name that an entry of Running has which was never tried.
	Entry string

	// Holds is the root hash of the system that the other slot is marked to
	// hold, "" for none.
	Holds   string
	Entries []Entry

	// Recovery is the root hash of the system that the recovery entry starts,
	// "" without.
	Recovery string

	// Journal is nil without an upgrade.
	Journal *Journal
	Failed  []Failure

	// Filled says that this process has compared all of that slot with what the
	// journal wants, StagedUKI that its UKI is on the ESP, for an entry to be
	// made of it.
	Filled, StagedUKI bool

	// Verdict is on the trial, if there is one.
	Verdict Verdict
}
