package repository

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
)

// state is what a repository says now.
type state struct {
	root      *metadata.Metadata[metadata.RootType]
	targets   *metadata.Metadata[metadata.TargetsType]
	snapshot  *metadata.Metadata[metadata.SnapshotType]
	timestamp *metadata.Metadata[metadata.TimestampType]
}

// newState has no release, and versions of zero.
func newState() state {
	never := time.Time{}
	st := state{
		root:      metadata.Root(never),
		targets:   metadata.Targets(never),
		snapshot:  metadata.Snapshot(never),
		timestamp: metadata.Timestamp(never),
	}

	st.root.Signed.Version = 0
	st.targets.Signed.Version = 0
	st.snapshot.Signed.Version = 0
	st.timestamp.Signed.Version = 0

	return st
}

// readState reads a repository as a node does, but accepts expired metadata. A
// repository that does not verify cannot be added to.
func readState(dir string) (state, error) {
	first, err := os.ReadFile(filepath.Join(dir, "metadata/1.root.json"))
	if err != nil {
		return state{}, fmt.Errorf("repository: %w\nhint: --init makes a new repository", err)
	}

	store, err := openDir(dir)
	if err != nil {
		return state{}, err
	}

	u, err := update(context.Background(), store, nowhere{}, first, Clock{})
	if err != nil {
		return state{}, err
	}

	return state{
		root:      u.set.Root,
		targets:   u.set.Targets[metadata.TARGETS],
		snapshot:  u.set.Snapshot,
		timestamp: u.set.Timestamp,
	}, nil
}

// nowhere is a Keeper that keeps nothing.
type nowhere struct{}

func (nowhere) Read(string) ([]byte, error) { return nil, fs.ErrNotExist }
func (nowhere) Write(string, []byte) error  { return nil }
