package bundle

import (
	"context"
	"fmt"
	"io/fs"
	"slices"

	index "github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/repository"
)

// Sizes are how large a bundle is, in bytes.
type Sizes struct {
	// All is what it takes on the node. New are the files that no other bundle of
	// the node has.
	All, New int64

	// Fetched is what the repository has of New, which is compressed. Files that are
	// new may have chunks in common with others, so that less is fetched.
	Fetched int64
}

// Measure asks the repository how large a bundle is. It writes nothing but what
// from keeps.
func (s Store) Measure(ctx context.Context, from Source, r Request) (Sizes, error) {
	ix, err := from.find(ctx, r)
	if err != nil {
		return Sizes{}, err
	}

	others := s.others(r.Version)
	var sizes Sizes
	for _, file := range ix.Files {
		sizes.All += file.Size
		if slices.ContainsFunc(others, func(b Bundle) bool { return b.has(file) }) {
			continue
		}
		sizes.New += file.Size
		for _, chunk := range file.Chunks {
			sizes.Fetched += chunk.Len
		}
	}
	return sizes, nil
}

// has reports whether the bundle has a file with the same content.
func (b Bundle) has(file index.File) bool {
	return slices.ContainsFunc(b.Files, func(f File) bool { return f.SHA256 == file.SHA256 })
}

// unchanged are records that stay as they are. It implements [repository.Records].
type unchanged struct{ fs.FS }

func (u unchanged) Read(name string) ([]byte, error) { return fs.ReadFile(u, name) }

func (unchanged) Write(string, []byte) error { return nil }

// Known returns the source of a node whose agent has read the repository before,
// and so knows whom to trust. kept has what it has verified, which stays as it is.
func Known(ref string, kept fs.FS) (Source, error) {
	records := unchanged{kept}
	trusted, err := repository.Load(records)
	if err == nil && trusted.Root == nil {
		err = fmt.Errorf("the node has not read the repository %s yet", ref)
	}
	return Source{Ref: ref, Root: trusted.Root, Keep: records}, err
}
