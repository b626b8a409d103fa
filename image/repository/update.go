package repository

import (
	"context"
	"fmt"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
	"github.com/theupdateframework/go-tuf/v2/metadata/trustedmetadata"
)

// Update reads the metadata of s as the TUF specification has a client do it (5.3 to 5.6), and returns its releases, newest first. root is
// the root.json that the node was given; k keeps what is verified, each file before the next is asked for, and is written only for what
// is new. now is compared with the expiry of each file.
func Update(ctx context.Context, s Store, k Keeper, root []byte, now time.Time) ([]Release, error) {
	u, err := update(ctx, s, k, root, now)
	if err != nil {
		return nil, err
	}
	return releases(u.set.Targets[metadata.TARGETS].Signed.Targets), nil
}

func update(ctx context.Context, s Store, k Keeper, root []byte, now time.Time) (*updater, error) {
	kept, err := Load(k)
	if err != nil {
		return nil, err
	}
	u := &updater{store: s, keeper: k, saved: kept, kept: kept.begin(root)}
	if u.set, err = open(u.kept.Root); err != nil {
		return nil, translate("the trusted root.json", err)
	}
	u.set.RefTime = now
	for _, step := range []func(context.Context) error{u.roots, u.timestamp, u.snapshot, u.targets} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// updater is an Update under way.
type updater struct {
	store  Store
	keeper Keeper
	// saved is what the keeper has, kept what it is to have.
	saved, kept Trusted
	set         *trustedmetadata.TrustedMetadata
}

// save gives the keeper what is new.
func (u *updater) save() error {
	if u.kept.equal(u.saved) {
		return nil
	}
	u.saved = u.kept
	return u.kept.Save(u.keeper)
}

func (u *updater) get(ctx context.Context, file string, limit int64) ([]byte, error) {
	data, err := u.store.Get(ctx, "metadata/"+file, limit)
	if err != nil {
		return nil, explain(file, err)
	}
	return data, nil
}

// fresh refuses what expired.
func (u *updater) fresh(file string, expires time.Time) error {
	if !u.set.RefTime.After(expires) {
		return nil
	}
	return explain(file, fmt.Errorf("%w on %s, and it is %s", ErrExpired, expires.UTC().Format(time.RFC3339), u.set.RefTime.UTC().Format(time.RFC3339)))
}
