package repository

import (
	"context"
	"errors"
	"fmt"

	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// Limits of files that are read before they are verified.
const (
	maxRoot      = 512 << 10
	maxTimestamp = 16 << 10
	maxSnapshot  = 1 << 20
	maxTargets   = 8 << 20
	// maxRotations of root that one Update follows; the next one goes on.
	maxRotations = 64
)

// roots follows the chain of roots: each is signed by its predecessor and by
// itself.
func (u *updater) roots(ctx context.Context) error {
	for range maxRotations {
		file := fmt.Sprintf("%d.root.json", u.set.Root.Signed.Version+1)
		data, err := u.get(ctx, file, maxRoot)
		if errors.Is(err, ErrNotFound) {
			break
		}

		if err != nil {
			return err
		}
		if err := checkRoot(data); err != nil {
			return translate(file, err)
		}
		if _, err := u.set.UpdateRoot(data); err != nil {
			return translate(file, err)
		}

		u.kept.follow(data)
		if err := u.save(); err != nil {
			return err
		}
	}

	return u.fresh("root.json", u.set.Root.Signed.Expires)
}

func (u *updater) timestamp(ctx context.Context) error {
	const file = "timestamp.json"

	// The kept metadata are only compared with. It is no error if they have
	// expired, or if earlier keys signed them.
	if checkTimestamp(u.kept.Timestamp) == nil {
		_, _ = u.set.UpdateTimestamp(u.kept.Timestamp)
	}

	data, err := u.get(ctx, file, maxTimestamp)
	if err != nil {
		return err
	}
	if err := checkTimestamp(data); err != nil {
		return translate(file, err)
	}

	switch _, err := u.set.UpdateTimestamp(data); {
	case errors.Is(err, &metadata.ErrEqualVersionNumber{}),
		errors.Is(err, &metadata.ErrExpiredMetadata{}):
		if err := u.fresh(file, u.set.Timestamp.Signed.Expires); err != nil {
			return err
		}
	case err != nil:
		return translate(file, err)
	default:
		u.kept.Timestamp = data
		if err := u.save(); err != nil {
			return err
		}
	}

	return u.since(signedAt(u.set.Timestamp))
}

func (u *updater) snapshot(ctx context.Context) error {
	want := u.set.Timestamp.Signed.Meta["snapshot.json"]
	file := fmt.Sprintf("%d.snapshot.json", want.Version)

	if checkSnapshot(u.kept.Snapshot) == nil {
		_, err := u.set.UpdateSnapshot(u.kept.Snapshot, true)
		if err == nil && want.VerifyLengthHashes(u.kept.Snapshot) == nil {
			return nil
		}
	}

	data, err := u.get(ctx, file, want.Length)
	if err != nil {
		return err
	}
	if err := want.VerifyLengthHashes(data); err != nil {
		return translate(file, err)
	}
	if err := checkSnapshot(data); err != nil {
		return translate(file, err)
	}

	switch _, err := u.set.UpdateSnapshot(data, false); {
	case errors.Is(err, &metadata.ErrExpiredMetadata{}):
		return u.fresh(file, u.set.Snapshot.Signed.Expires)
	case err != nil:
		return translate(file, err)
	}

	u.kept.Snapshot = data
	return u.save()
}

func (u *updater) targets(ctx context.Context) error {
	want := u.set.Snapshot.Signed.Meta["targets.json"]
	file := fmt.Sprintf("%d.targets.json", want.Version)
	data := u.kept.Targets
	if want.VerifyLengthHashes(data) != nil {
		var err error
		data, err = u.get(ctx, file, want.Length)
		if err != nil {
			return err
		}
		if err := want.VerifyLengthHashes(data); err != nil {
			return translate(file, err)
		}
	}

	if err := checkTargets(data); err != nil {
		return translate(file, err)
	}
	if _, err := u.set.UpdateTargets(data); err != nil {
		return translate(file, err)
	}

	u.kept.Targets = data
	return u.save()
}
