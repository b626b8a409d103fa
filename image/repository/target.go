package repository

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/image/bundle"
)

const indexSuffix = ".index.json"

// Target is an index as TUF's target.
type Target struct {
	// Index is its path. The others are its length and digest.
	Index       string
	IndexSize   int64
	IndexSHA256 string
}

// indexes returns the targets that read understands, newest first. Others are of
// another kind, or were published for later programs. order returns the version
// of an index, and its path.
func indexes[T any](
	targets map[string]*metadata.TargetFiles,
	read func(path string, file *metadata.TargetFiles) (T, error),
	order func(T) (version, path string),
) []T {
	var list []T
	for path, file := range targets {
		if one, err := read(path, file); err == nil {
			list = append(list, one)
		}
	}

	slices.SortFunc(list, func(a, b T) int {
		aVersion, aPath := order(a)
		bVersion, bPath := order(b)
		return cmp.Or(bootentry.CompareVersions(bVersion, aVersion), strings.Compare(aPath, bPath))
	})
	return list
}

// readCustom decodes what targets.json says of an index, beside its length and
// digest.
func readCustom(file *metadata.TargetFiles, into any) error {
	if file.Custom == nil {
		return errors.New("custom: not there")
	}
	if err := json.Unmarshal(*file.Custom, into); err != nil {
		return fmt.Errorf("custom: %w", err)
	}
	return nil
}

// target returns the target of an index whose name must begin with base.
func target(path, base string, file *metadata.TargetFiles) (Target, error) {
	sum := file.Hashes["sha256"]
	if path != base+indexSuffix {
		return Target{}, fmt.Errorf("want the name %s%s", base, indexSuffix)
	}
	if file.Length < 1 || file.Length > bundle.MaxIndex || len(sum) != sha256.Size {
		return Target{}, fmt.Errorf("want a length up to %d and a sha256", bundle.MaxIndex)
	}
	return Target{Index: path, IndexSize: file.Length, IndexSHA256: sum.String()}, nil
}

// entryOf makes the entry of targets.json for the text of an index.
func entryOf(text []byte, about json.RawMessage) *metadata.TargetFiles {
	sum := sha256.Sum256(text)
	return &metadata.TargetFiles{
		Length: int64(len(text)),
		Hashes: metadata.Hashes{"sha256": sum[:]},
		Custom: &about,
	}
}

// Base is what the names of all of its files begin with.
func (t Target) Base() string { return strings.TrimSuffix(t.Index, indexSuffix) }

// Stored returns the name under which the repository has the index (consistent
// snapshots: with its digest).
func (t Target) Stored() string { return "targets/" + t.IndexSHA256 + "." + t.Index }

// fetch reads the index, verified.
func (t Target) fetch(ctx context.Context, s Store) ([]byte, error) {
	text, err := s.Get(ctx, t.Stored(), t.IndexSize)
	if err != nil {
		return nil, explain(t.Index, err)
	}

	have := fmt.Sprintf("%x", sha256.Sum256(text))
	if int64(len(text)) != t.IndexSize || have != t.IndexSHA256 {
		return nil, explain(t.Index,
			fmt.Errorf("%d bytes, SHA-256 %s: %w", len(text), have, ErrMixed))
	}
	return text, nil
}
