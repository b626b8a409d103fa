package repository

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// Wave is a share of all machines that a release reaches from a time on. Machines that
// share nothing but a repository take a release one share after the other.
type Wave struct {
	// After is the time from which the release is for them.
	After time.Time `json:"after"`
	// Share is the percentage of all machines, with those of the waves before: 1 to 100.
	// What TUF signs has whole numbers only.
	Share int `json:"share"`
}

// maxWaves is the largest number of waves of a release.
const maxWaves = 32

// CheckWaves returns an error unless both the times and the shares of waves rise.
// After the last wave with less than 100 percent, the others wait for new waves.
func CheckWaves(waves []Wave) error {
	if len(waves) > maxWaves {
		return fmt.Errorf("%d waves: want up to %d", len(waves), maxWaves)
	}

	var before Wave
	for i, w := range waves {
		switch {
		case w.After.IsZero():
			return fmt.Errorf("wave %d: it has no time", i+1)
		case w.Share < 1 || w.Share > 100:
			return fmt.Errorf("wave %d: %d %%: want 1 to 100", i+1, w.Share)
		case i > 0 && !w.After.After(before.After):
			return fmt.Errorf("wave %d: it is not later than the one before", i+1)
		case i > 0 && w.Share <= before.Share:
			return fmt.Errorf("wave %d: %d %%: want more than %d, which the one before has",
				i+1, w.Share, before.Share)
		}
		before = w
	}

	return nil
}

// Reaches returns when a release reaches a machine, whose ID is that of machine-id(5):
// the zero time if it has no waves. ok is false if no wave does.
func (r Release) Reaches(machine string) (from time.Time, ok bool) {
	if len(r.Waves) == 0 {
		return time.Time{}, true
	}

	at := place(machine, r.Version)
	for _, w := range r.Waves {
		if at < float64(w.Share) {
			return w.After, true
		}
	}
	return time.Time{}, false
}

// place returns where a machine is among all machines for a version, from 0 to
// below 100. With another version, another machine is first.
func place(machine, version string) float64 {
	sum := sha256.Sum256([]byte("loam wave\n" + version + "\n" + machine))
	// The 53 bits are what a float64 has.
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53) * 100
}

// WithWaves returns the entry of a release in targets.json with other waves, and with
// all else that a publisher wrote there.
func WithWaves(entry *metadata.TargetFiles, waves []Wave) (*metadata.TargetFiles, error) {
	if err := CheckWaves(waves); err != nil {
		return nil, err
	}
	var about map[string]any
	if err := readCustom(entry, &about); err != nil {
		return nil, err
	}

	delete(about, "rollout")
	if len(waves) > 0 {
		about["rollout"] = waves
	}
	text, err := json.Marshal(about)
	if err != nil {
		return nil, err
	}

	changed := *entry
	changed.Custom = (*json.RawMessage)(&text)
	return &changed, nil
}
