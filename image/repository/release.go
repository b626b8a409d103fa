package repository

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/image/bundle"
)

// Release is a release in the repository. All of it is signed.
type Release struct {
	Version, Arch, Profile, ImageID string
	// Epoch is the security epoch.
	Epoch int
	// Index is the path of the index as TUF's target, with its length and
	// digest.
	Index       string
	IndexSize   int64
	IndexSHA256 string
}

// custom is what targets.json says of a release, beside length and digest of
// its index. What later publishers add is ignored.
type custom struct {
	ImageID string `json:"imageID"`
	Version string `json:"version"`
	Arch    string `json:"arch"`
	Profile string `json:"profile"`
	Epoch   int    `json:"epoch"`
}

const indexSuffix = ".index.json"

// releases returns the targets that are indexes, newest first. It skips targets
// that it does not understand: they were published for later programs.
func releases(targets map[string]*metadata.TargetFiles) []Release {
	var list []Release
	for path, file := range targets {
		if r, err := release(path, file); err == nil {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b Release) int {
		return cmp.Or(bootentry.CompareVersions(b.Version, a.Version),
			strings.Compare(a.Index, b.Index))
	})
	return list
}

func release(path string, file *metadata.TargetFiles) (Release, error) {
	if file.Custom == nil {
		return Release{}, fmt.Errorf("custom: not there")
	}

	var c custom
	if err := json.Unmarshal(*file.Custom, &c); err != nil {
		return Release{}, fmt.Errorf("custom: %w", err)
	}

	base, err := bundle.Base(c.ImageID, c.Version, c.Arch)
	switch sum := file.Hashes["sha256"]; {
	case err != nil:
		return Release{}, err
	case c.Epoch < 0:
		return Release{}, fmt.Errorf("epoch %d: negative", c.Epoch)
	case path != base+indexSuffix:
		return Release{}, fmt.Errorf("want the name %s%s", base, indexSuffix)
	case file.Length < 1 || file.Length > bundle.MaxIndex || len(sum) != sha256.Size:
		return Release{}, fmt.Errorf("want a length up to %d and a sha256", bundle.MaxIndex)
	}

	return Release{
		ImageID:     c.ImageID,
		Version:     c.Version,
		Arch:        c.Arch,
		Profile:     c.Profile,
		Epoch:       c.Epoch,
		Index:       path,
		IndexSize:   file.Length,
		IndexSHA256: file.Hashes["sha256"].String(),
	}, nil
}

// Describe makes the entry of targets.json for the index of a release, whose
// encoding is text, and reads it as a node will.
func Describe(ix bundle.Index, text []byte) (Release, *metadata.TargetFiles, error) {
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
	})
	if err != nil {
		return Release{}, nil, err
	}

	sum := sha256.Sum256(text)
	target := &metadata.TargetFiles{
		Length: int64(len(text)),
		Hashes: metadata.Hashes{"sha256": sum[:]},
		Custom: (*json.RawMessage)(&about),
	}

	r, err := release(base+indexSuffix, target)
	return r, target, err
}

// Base is what the names of all files of the release begin with.
func (r Release) Base() string { return strings.TrimSuffix(r.Index, indexSuffix) }

// Stored returns the name under which the repository has the index (consistent
// snapshots: with its digest).
func (r Release) Stored() string { return "targets/" + r.IndexSHA256 + "." + r.Index }

// Fetch reads the index of the release, verified.
func (r Release) Fetch(ctx context.Context, s Store) (bundle.Index, error) {
	text, err := s.Get(ctx, r.Stored(), r.IndexSize)
	if err != nil {
		return bundle.Index{}, explain(r.Index, err)
	}

	have := fmt.Sprintf("%x", sha256.Sum256(text))
	if int64(len(text)) != r.IndexSize || have != r.IndexSHA256 {
		return bundle.Index{}, explain(r.Index,
			fmt.Errorf("%d bytes, SHA-256 %s: %w", len(text), have, ErrMixed))
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
