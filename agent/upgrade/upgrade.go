package upgrade

import "github.com/loam-os/loam/agent/upgrade/disk"

// System is one version of the image.
type System struct {
	Version string `json:"version"`
	// RootHash is the verity root hash, 64 hex digits: what the system is.
	RootHash string `json:"rootHash"`
}

// View is the input of [Next].
type View struct {
	// Running is the system of this boot.
	Running System

	// Entry is the name of an entry of Running before its first try.
	Entry string

	// Holds is the root hash of the system that the other slot is marked to
	// hold, "" if none.
	Holds   string
	Entries []disk.Entry

	// Recovery is the root hash of the system that the recovery entry starts,
	// "" if none.
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
