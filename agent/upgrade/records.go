package upgrade

import (
	"fmt"
	"time"

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

// ReadIndex returns the index of the upgrade under way.
func ReadIndex(s records.Store) (bundle.Index, error) {
	text, err := s.Read(indexName)
	if err != nil {
		return bundle.Index{}, fmt.Errorf("read the index of the upgrade: %w", err)
	}
	return bundle.Parse(text)
}

// LastBegan returns when the last upgrade began, the zero time if that is not known.
func LastBegan(s records.Store) (at time.Time) {
	_ = records.Load(s, lastName, &at) // The zero time, then.
	return at
}
