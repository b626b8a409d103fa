package repository

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/image/bundle"
)

// Release is a release in the repository. All of it is signed.
type Release struct {
	Version, Arch, Profile, ImageID string
	// Epoch is the security epoch.
	Epoch int
	// Waves say when the release reaches which share of the machines; with none, it
	// reaches all at once.
	Waves []Wave
	Target
}

// custom is what targets.json says of a release, beside length and digest of
// its index. What later publishers add is ignored.
type custom struct {
	ImageID string `json:"imageID"`
	Version string `json:"version"`
	Arch    string `json:"arch"`
	Profile string `json:"profile"`
	Epoch   int    `json:"epoch"`
	Rollout []Wave `json:"rollout,omitempty"`
}

// releases returns the targets that are indexes of releases, newest first.
func releases(targets map[string]*metadata.TargetFiles) []Release {
	return indexes(targets, release, func(r Release) (version, path string) {
		return r.Version, r.Index
	})
}

func release(path string, file *metadata.TargetFiles) (Release, error) {
	var c custom
	if err := readCustom(file, &c); err != nil {
		return Release{}, err
	}

	base, err := bundle.Base(c.ImageID, c.Version, c.Arch)
	if err != nil {
		return Release{}, err
	}
	if c.Epoch < 0 {
		return Release{}, fmt.Errorf("epoch %d: negative", c.Epoch)
	}
	if err := CheckWaves(c.Rollout); err != nil {
		return Release{}, fmt.Errorf("rollout: %w", err)
	}

	t, err := target(path, base, file)
	return Release{
		ImageID: c.ImageID,
		Version: c.Version,
		Arch:    c.Arch,
		Profile: c.Profile,
		Epoch:   c.Epoch,
		Waves:   c.Rollout,
		Target:  t,
	}, err
}

// Describe makes the entry of targets.json for the index of a release, whose
// encoding is text, and reads it as a node will.
func Describe(
	ix bundle.Index, text []byte, waves []Wave,
) (Release, *metadata.TargetFiles, error) {
	base, err := bundle.Base(ix.ImageID, ix.Version, ix.Arch)
	if err != nil {
		return Release{}, nil, err
	}

	about, err := json.Marshal(custom{
		ImageID: ix.ImageID,
		Version: ix.Version,
		Arch:    ix.Arch,
		Profile: ix.Profile,
		Epoch:   ix.Epoch,
		Rollout: waves,
	})
	if err != nil {
		return Release{}, nil, err
	}

	entry := entryOf(text, about)
	r, err := release(base+indexSuffix, entry)
	return r, entry, err
}

// Fetch reads the index of the release, verified.
func (r Release) Fetch(ctx context.Context, s Store) (bundle.Index, error) {
	text, err := r.fetch(ctx, s)
	if err != nil {
		return bundle.Index{}, err
	}

	ix, err := bundle.Parse(text)
	if err != nil {
		return bundle.Index{}, explain(r.Index, fmt.Errorf("%w (%w)", ErrInvalid, err))
	}

	if ix.ImageID != r.ImageID || ix.Version != r.Version || ix.Arch != r.Arch ||
		ix.Profile != r.Profile || ix.Epoch != r.Epoch {
		return bundle.Index{}, explain(
			r.Index,
			fmt.Errorf("%w (of %s %s %s %s epoch %d, signed for another release)",
				ErrInvalid, ix.ImageID, ix.Version, ix.Arch, ix.Profile, ix.Epoch),
		)
	}

	return ix, nil
}
