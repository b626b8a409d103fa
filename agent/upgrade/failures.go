package upgrade

import (
	"context"
	"slices"
	"time"

	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/upgrade/records"
)

// Failure is a system that failed and is not tried again by itself.
type Failure = status.FailedSystem

// RolledBack is the reason of a [Failure] of a system that did not fail: an
// operator did not want it.
const RolledBack = "an operator has gone back"

// maxFailures is how many failures are remembered.
const maxFailures = 32

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

// failureKeeper records which systems must not be tried again.
type failureKeeper struct {
	records records.Store
	now     func() time.Time
}

// recordTarget records that the target must not be tried again.
func (k failureKeeper) recordTarget(
	ctx context.Context, j Journal, host Host, reason string,
) error {
	f := Failure{
		Version:  j.Target.Version,
		RootHash: j.Target.RootHash,
		Reason:   printable.Message(reason, printable.Most),
		At:       k.now().UTC(),
	}
	f.Evidence = host.Evidence(ctx, j)
	if err := ctx.Err(); err != nil { // The next start may find more.
		return err
	}
	return recordFailure(k.records, f)
}

// hold keeps a system from coming back by itself after an operator has rolled
// it back.
func (k failureKeeper) hold(j Journal) error {
	if !j.Rollback {
		return nil
	}
	return recordFailure(k.records, Failure{
		Version:  j.From.Version,
		RootHash: j.From.RootHash,
		Reason:   RolledBack,
		At:       k.now().UTC(),
	})
}
