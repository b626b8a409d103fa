package publish

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/meter"
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

// readState reads a repository that will be signed again, and verifies all of
// it, because the new signature vouches for the old content, too.
func readState(ctx context.Context, dir string, report meter.Report) (state, error) {
	news, _, err := verify(ctx, dir, report)
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

// firstRoot is the file by which nodes trust a repository.
const firstRoot = "metadata/1.root.json"

// read reads the metadata of a repository as a node does, but accepts expired
// metadata. The store records the files that are read, the metadata among them.
func read(ctx context.Context, dir string) (*recorder, repository.News, error) {
	first, err := os.ReadFile(filepath.Join(dir, firstRoot))
	if isMissing(err) {
		return nil, repository.News{}, hint.With(fault.With(fmt.Errorf("repository: %w", err),
			fault.NotARepository),
			"`loamctl bundle BUILD_DIR --init` makes a new repository")
	}
	if err != nil {
		return nil, repository.News{}, fmt.Errorf("repository: %w", err)
	}

	files, err := repository.Open(dir)
	if err != nil {
		return nil, repository.News{}, err
	}

	store := &recorder{Store: files, read: []File{describe(firstRoot, first)}}
	news, err := repository.Update(ctx, store, nowhere{}, first, repository.Clock{})

	return store, news, err
}

// isMissing reports whether err says that a file, or a directory above it, is not
// there.
func isMissing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

// targets returns what the metadata of a repository name.
func targets(news repository.News) map[string]*metadata.TargetFiles {
	return news.Metadata.Targets[metadata.TARGETS].Signed.Targets
}

// nowhere implements [repository.Records]. It records nothing.
type nowhere struct{}

func (nowhere) Read(string) ([]byte, error) { return nil, fs.ErrNotExist }
func (nowhere) Write(string, []byte) error  { return nil }
