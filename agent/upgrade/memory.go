package upgrade

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/loam-os/loam/image/bundle"
)

// Keeper keeps small files on the state partition. What Write has returned from
// outlives a power cut, and so does all that was written to the disk before.
type Keeper interface {
	// Read is fs.ErrNotExist for a file that is not there.
	Read(name string) ([]byte, error)
	Write(name string, data []byte) error
	Remove(name string) error
}

const (
	journalName  = "upgrade.json"
	indexName    = "upgrade-index.json"
	failuresName = "upgrade-failed.json"
	// lastName has the time at which the last upgrade began.
	lastName = "upgrade-last.json"
	// contentsName has the Contents of a slot.
	contentsName = "upgrade-contents.json"
	// scratchName is where the UKI of an upgrade is made.
	scratchName = "upgrade-uki"
)

// maxFailures is how many failures are remembered.
const maxFailures = 32

// ReadJournal is the upgrade under way, nil without one. One that cannot be read
// is none: what is on the disk says the rest.
func ReadJournal(k Keeper) (*Journal, error) {
	var j Journal
	if err := read(k, journalName, &j); err != nil || j.Target.RootHash == "" || j.From.RootHash == "" {
		return nil, err
	}
	return &j, nil
}

// Failures are the systems that are not tried again.
func Failures(k Keeper) ([]Failure, error) {
	var all []Failure
	err := read(k, failuresName, &all)
	return all, err
}

// Forget has a system be tried again.
func Forget(k Keeper, rootHash string) error {
	all, err := Failures(k)
	if err != nil {
		return err
	}
	left := slices.DeleteFunc(slices.Clone(all), func(f Failure) bool { return f.RootHash == rootHash })
	if len(left) == len(all) {
		return nil
	}
	return write(k, failuresName, left)
}

// remember adds a failure; it takes the place of an earlier one of that system.
func remember(k Keeper, f Failure) error {
	all, err := Failures(k)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(old Failure) bool { return old.RootHash == f.RootHash })
	all = append(all, f)
	return write(k, failuresName, all[max(0, len(all)-maxFailures):])
}

// index is that of the upgrade under way.
func index(k Keeper) (bundle.Index, error) {
	text, err := k.Read(indexName)
	if err != nil {
		return bundle.Index{}, fmt.Errorf("read the index of the upgrade: %w", err)
	}
	return bundle.Parse(text)
}

// read leaves to as it is, of zero value, if the file is not there or not what was
// written to it: nothing here is worth more than going on.
func read[T any](k Keeper, name string, to *T) error {
	text, err := k.Read(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", name, err)
	}
	if json.Unmarshal(text, to) != nil {
		*to = *new(T)
	}
	return nil
}

func write(k Keeper, name string, from any) error {
	text, err := json.MarshalIndent(from, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	if err := k.Write(name, append(text, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}
