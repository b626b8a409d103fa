// Package publish writes repositories of updates, which nodes read by
// image/repository: [Init] makes one, [Publish] adds a release, [Refresh] shows
// nodes that it is not frozen, [Rotate] replaces its keys, [SignPermit] allows
// an older release. It needs the private [Keys], and no node links it.
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
	"github.com/loam-os/loam/image/repository"
	"github.com/loam-os/loam/image/update"
)

// Publish adds a release to the repository in dir. Readers see either all of it
// or nothing. Publishing a release again is no error, but other content under
// the same name is: nodes remember a version that failed, and files must not
// change while they are fetched.
func Publish(
	dir string, keys Keys, b update.Bundle, e Expiries, now time.Time,
) (repository.Release, error) {
	unlock, err := Lock(dir)
	if err != nil {
		return repository.Release{}, err
	}
	defer unlock()

	_, news, err := read(context.Background(), dir)
	if err != nil {
		return repository.Release{}, err
	}

	text, err := b.Index.Encode()
	if err != nil {
		return repository.Release{}, err
	}

	r, target, err := repository.Describe(b.Index, text)
	if err != nil {
		return repository.Release{}, err
	}

	if have, ok := targets(news)[r.Index]; ok {
		if have.Hashes["sha256"].String() == r.IndexSHA256 {
			return r, repair(dir, b, r, text)
		}
		return repository.Release{}, hint.With(
			fault.With(fmt.Errorf("repository %s: %s is published already, with other content",
				dir, r.Base()), fault.FileExists),
			"a new release has a new IMAGE_VERSION; each profile has its own repository")
	}

	st, err := readState(dir)
	if err != nil {
		return repository.Release{}, err
	}
	if err := place(dir, b, r, text); err != nil {
		return repository.Release{}, fmt.Errorf("publish %s: %w", r.Index, err)
	}

	st.targets.Signed.Targets[r.Index] = target
	s := signer{
		dir:      dir,
		keys:     keys,
		expiries: e,
		now:      now,
	}
	if err := s.commit(st, func() error { return nil }); err != nil {
		return repository.Release{}, fmt.Errorf("publish %s: %w", r.Index, err)
	}

	return r, nil
}

// Refresh signs a new timestamp, so that nodes know the repository is not
// frozen.
func Refresh(dir string, keys Keys, e Expiries, now time.Time) error {
	unlock, err := Lock(dir)
	if err != nil {
		return err
	}
	defer unlock()

	st, err := readState(dir)
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

// repair places the files of a release that is published already again, if
// one of them is damaged.
func repair(dir string, b update.Bundle, r repository.Release, index []byte) error {
	parts, err := partsOf(b.Index)
	if err != nil {
		return err
	}

	sums, err := readSums(dir)
	if err != nil {
		return err
	}

	intact := describe(r.Stored(), index).In(dir)
	for _, f := range parts.all() {
		intact = intact && f.In(dir)
	}
	for name, sum := range parts.sums() {
		intact = intact && sums[name] == sum
	}
	if intact {
		return nil
	}

	if err := place(dir, b, r, index); err != nil {
		return fmt.Errorf("repair %s: %w", r.Index, err)
	}
	return nil
}

// place puts the files of a release where the metadata will say they are, and
// verifies them there.
func place(dir string, b update.Bundle, r repository.Release, index []byte) error {
	parts, err := partsOf(b.Index)
	if err != nil {
		return err
	}

	for _, f := range []struct {
		File
		from string
	}{
		{parts.pack, b.Pack},
		{parts.root, b.Root},
		{parts.verity, b.Verity},
		{parts.uki, b.UKI},
	} {
		if err := linkFile(f.File, dir, f.from); err != nil {
			return err
		}
	}

	if f := parts.signature; f.Name != "" {
		err := writeFile(filepath.Join(dir, f.Name), parts.signatureText, 0o644)
		if err != nil {
			return err
		}
	}

	if err := addSums(b, dir, parts.sums()); err != nil {
		return err
	}

	return writeFile(filepath.Join(dir, r.Stored()), index, 0o644)
}

// sumsName is the list of digests that systemd-sysupdate reads, sumsSignature
// what it verifies that by.
const sumsName, sumsSignature = "SHA256SUMS", "SHA256SUMS.gpg"

// addSums adds files to the SHA256SUMS of a directory, as sha256sum(1) writes
// it, sorted by name. A file that is in it has the new sum.
func addSums(b update.Bundle, dir string, sums map[string]string) error {
	old, err := readSums(dir)
	if err != nil {
		return err
	}

	for name, sum := range old {
		if _, again := sums[name]; !again {
			sums[name] = sum
		}
	}

	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		fmt.Fprintf(&text, "%s  %s\n", sums[name], name)
	}

	if b.SignSums == nil {
		if _, err := os.Stat(filepath.Join(dir, sumsSignature)); err == nil {
			return hint.With(fmt.Errorf("%s is signed, and would not be any longer", sumsName),
				"--sums-key signs it again")
		}
		return writeFile(filepath.Join(dir, sumsName), []byte(text.String()), 0o644)
	}

	signature, err := b.SignSums([]byte(text.String()))
	if err != nil {
		return fmt.Errorf("%s: %w", sumsName, err)
	}

	// Between the two, who verifies it takes nothing, and a publication that
	// was cut off there is done again.
	return errors.Join(writeFile(filepath.Join(dir, sumsName), []byte(text.String()), 0o644),
		writeFile(filepath.Join(dir, sumsSignature), signature, 0o644))
}
