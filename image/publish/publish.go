// Package publish writes repositories of updates, which nodes read by
// image/repository: [Init] makes one, [Publish] adds a release,
// [PublishKubernetes] a Kubernetes bundle, [Refresh] shows nodes that it is not
// frozen, [Rotate] replaces its keys, [SignPermit] allows an older release. It
// needs the private [Keys], and no node links it.
//
//	update.Bundle --> pack, root, verity, UKI, SHA256SUMS    no node reads it yet
//	      |
//	      v
//	    index --> targets.json --> snapshot.json --> timestamp.json
//	                                                 from here on, nodes see it
//
// A publisher reads the repository as a node does before it adds anything, and
// [Verify] compares every file with the signed metadata before they are signed
// again or copied.
// image/publish/distribute copies a repository to where nodes find it.
package publish

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/repository"
	"github.com/loam-os/loam/image/update"
)

// Publish adds a release to the repository in dir. Readers see either all of it
// or nothing. Publishing a release again is no error, but other content under
// the same name is: nodes remember a version that failed, and files must not
// change while they are fetched. report is told how far it is.
func Publish(
	ctx context.Context,
	dir string,
	keys Keys,
	b update.Bundle,
	e Expiries,
	now time.Time,
	report meter.Report,
) (repository.Release, error) {
	p, r, err := releasePublication(b)
	if err != nil {
		return repository.Release{}, err
	}
	s := signer{
		dir:      dir,
		keys:     keys,
		expiries: e,
		now:      now,
	}
	return r, p.publish(ctx, s, report)
}

// Refresh signs a new timestamp, so that nodes know the repository is not
// frozen. report is told how far it is.
func Refresh(
	ctx context.Context,
	dir string,
	keys Keys,
	e Expiries,
	now time.Time,
	report meter.Report,
) error {
	unlock, err := Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()

	st, err := readState(ctx, dir, report)
	if err != nil {
		return err
	}

	s := signer{
		dir:      dir,
		keys:     keys,
		expiries: e,
		now:      now,
	}
	if err := s.stamp(st); err != nil {
		return fmt.Errorf("repository %s: %w", dir, err)
	}

	return nil
}

// Signature is the newest signature of a repository.
type Signature struct {
	// Version counts the signatures, from 1.
	Version int64
	// Until is when nodes take updates from the repository no longer.
	Until time.Time
}

// LastSignature returns the newest signature of the repository in dir, the zero
// value if there is no repository yet.
func LastSignature(ctx context.Context, dir string) (Signature, error) {
	_, news, err := read(ctx, dir)
	if fault.Of(err) == fault.NotARepository {
		return Signature{}, nil
	}
	if err != nil {
		return Signature{}, err
	}
	last := news.Metadata.Timestamp.Signed
	return Signature{Version: last.Version, Until: last.Expires}, nil
}

// sumsName is the list of digests that systemd-sysupdate reads, sumsSignature
// what it verifies that by.
const sumsName, sumsSignature = "SHA256SUMS", "SHA256SUMS.gpg"

// addSums adds files to the SHA256SUMS of a directory. A file that is in it has the
// new sum.
func addSums(dir string, added map[string]string, sign func([]byte) ([]byte, error)) error {
	sums, err := readSums(dir)
	if err != nil {
		return err
	}
	maps.Copy(sums, added)
	return writeSums(dir, sums, sign)
}

// removeSums takes the files out of the SHA256SUMS of a directory for whose names
// isRemoved is true, and returns their number.
func removeSums(
	dir string, isRemoved func(name string) bool, sign func([]byte) ([]byte, error),
) (removed int, err error) {
	sums, err := readSums(dir)
	if err != nil {
		return 0, err
	}
	before := len(sums)
	maps.DeleteFunc(sums, func(name, _ string) bool { return isRemoved(name) })
	removed = before - len(sums)
	if removed == 0 {
		return 0, nil
	}
	return removed, writeSums(dir, sums, sign)
}

// writeSums writes the SHA256SUMS of a directory as sha256sum(1) does, sorted by name.
func writeSums(dir string, sums map[string]string, sign func([]byte) ([]byte, error)) error {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&text, "%s  %s\n", sums[name], name)
	}

	if err := checkSumsKey(dir, sign); err != nil {
		return err
	}
	if sign == nil {
		return writeFile(filepath.Join(dir, sumsName), []byte(text.String()), 0o644)
	}

	signature, err := sign([]byte(text.String()))
	if err != nil {
		return fmt.Errorf("%s: %w", sumsName, err)
	}

	// Between the two, who verifies it takes nothing, and a publication that
	// was cut off there is done again.
	return errors.Join(writeFile(filepath.Join(dir, sumsName), []byte(text.String()), 0o644),
		writeFile(filepath.Join(dir, sumsSignature), signature, 0o644))
}

// checkSumsKey returns an error if SHA256SUMS is signed and could not be signed again.
func checkSumsKey(dir string, sign func([]byte) ([]byte, error)) error {
	if sign != nil {
		return nil
	}
	if _, err := os.Stat(filepath.Join(dir, sumsSignature)); err == nil {
		return hint.With(fmt.Errorf("%s is signed, and would not be any longer", sumsName),
			"--sums-key signs it again")
	}
	return nil
}
