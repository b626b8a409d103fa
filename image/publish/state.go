package publish

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/repository"
)

// state is the metadata of a repository.
type state struct {
	root      *metadata.Metadata[metadata.RootType]
	targets   *metadata.Metadata[metadata.TargetsType]
	snapshot  *metadata.Metadata[metadata.SnapshotType]
	timestamp *metadata.Metadata[metadata.TimestampType]
}

// newState returns metadata without a release, and with versions of zero.
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

// readState reads a repository to which something will be added.
func readState(dir string) (state, error) {
	news, err := read(dir)
	if err != nil {
		return state{}, err
	}

	m := news.Metadata
	return state{
		root:      m.Root,
		targets:   m.Targets[metadata.TARGETS],
		snapshot:  m.Snapshot,
		timestamp: m.Timestamp,
	}, nil
}

// read reads a repository as a node does, but accepts expired metadata. A
// repository that does not verify cannot be added to.
func read(dir string) (repository.News, error) {
	first, err := os.ReadFile(filepath.Join(dir, "metadata/1.root.json"))
	if err != nil {
		return repository.News{}, hint.With(fmt.Errorf("repository: %w", err),
			"--init makes a new repository")
	}

	store, err := repository.Open(dir)
	if err != nil {
		return repository.News{}, err
	}

	return repository.Update(context.Background(), store, nowhere{}, first, repository.Clock{})
}

// nowhere implements [repository.Keeper]. It keeps nothing.
type nowhere struct{}

func (nowhere) Read(string) ([]byte, error) { return nil, fs.ErrNotExist }
func (nowhere) Write(string, []byte) error  { return nil }
