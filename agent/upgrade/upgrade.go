package upgrade

import "github.com/loam-os/loam/firmware/bootentry"

// System is one version of the image.
type System struct {
	Version string `json:"version"`
	// RootHash is the verity root hash, 64 hex digits: what the system is.
	RootHash string `json:"rootHash"`
}

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
	// hold, "" if none.
	Holds   string
	Entries []Entry

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
