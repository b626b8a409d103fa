package upgrade

import (
	"fmt"
	"slices"

	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/image/bundle"
)

// Records are the small files of upgrades on the state partition, and the file
// in which a UKI is assembled.
type Records interface {
	records.Store

	// Scratch opens the file for a UKI of that size. It may still have older
	// content.
	Scratch(size int64) (Closer, error)

	// Free returns how many bytes the state partition has left.
	Free() (int64, error)
}

const (
	journalName  = "upgrade.json"
	indexName    = "upgrade-index.json"
	failuresName = "upgrade-failed.json"
	// lastName is the file with the time at which the last upgrade began.
	lastName = "upgrade-last.json"
	// scratchName is the file in which a UKI is assembled.
	scratchName = "upgrade-uki"
)

// maxFailures is how many failures are remembered.
const maxFailures = 32

// ReadJournal returns the upgrade under way, nil if there is none. A journal
// that cannot be read counts as none: the disk tells the rest.
func ReadJournal(s records.Store) (*Journal, error) {
	var j Journal
	err := records.Load(s, journalName, &j)
	if err != nil || j.Target.RootHash == "" || j.From.RootHash == "" {
		return nil, err
	}
	return &j, nil
}

// Failures returns the systems that are not tried again.
func Failures(s records.Store) ([]Failure, error) {
	var all []Failure
	err := records.Load(s, failuresName, &all)
	return all, err
}

// Forget allows a system to be tried again.
func Forget(s records.Store, rootHash string) error {
	all, err := Failures(s)
	if err != nil {
		return err
	}

	left := slices.DeleteFunc(slices.Clone(all), func(f Failure) bool {
		return f.RootHash == rootHash
	})
	if len(left) == len(all) {
		return nil
	}

	return records.Save(s, failuresName, left)
}

// recordFailure adds a failure. It replaces an earlier failure of the same
// system.
func recordFailure(s records.Store, f Failure) error {
	all, err := Failures(s)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(old Failure) bool { return old.RootHash == f.RootHash })
	all = append(all, f)
	return records.Save(s, failuresName, all[max(0, len(all)-maxFailures):])
}

// index returns the index of the upgrade under way.
func index(s records.Store) (bundle.Index, error) {
	text, err := s.Read(indexName)
	if err != nil {
		return bundle.Index{}, fmt.Errorf("read the index of the upgrade: %w", err)
	}
	return bundle.Parse(text)
}
