package publish

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/repository"
)

// Edit changes what is published of a version, for each architecture.
type Edit struct {
	// Dir is the directory of the repository.
	Dir      string
	Version  string
	Keys     Keys
	Expiries Expiries
	Now      time.Time
	// Report is told how far the look at the repository is.
	Report meter.Report
}

// SetWaves says anew when the version reaches which share of the machines; with no
// waves, it reaches all at once. It returns the releases.
func (e Edit) SetWaves(
	ctx context.Context, waves []repository.Wave,
) ([]repository.Release, error) {
	return e.commit(ctx, func(st state, r repository.Release) error {
		entry, err := repository.WithWaves(st.targets.Signed.Targets[r.Index], waves)
		if err != nil {
			return err
		}
		st.targets.Signed.Targets[r.Index] = entry
		return nil
	})
}

// Withdraw takes the version out of the metadata and out of SHA256SUMS, which signSums
// signs, nil for nobody. No machine begins an upgrade to it any more. Its files stay:
// machines that fetch it finish that, and publishing it again undoes it. It returns the
// releases.
//
// A call that was cut off can be repeated.
func (e Edit) Withdraw(
	ctx context.Context, signSums func(text []byte) ([]byte, error),
) ([]repository.Release, error) {
	if err := checkSumsKey(e.Dir, signSums); err != nil {
		return nil, err
	}
	releases, err := e.commit(ctx, func(st state, r repository.Release) error {
		delete(st.targets.Signed.Targets, r.Index)
		return nil
	})
	// Metadata first: without its lines, a release would look damaged.
	isCutOff := fault.Of(err) == fault.NoSuchRelease
	if err != nil && !isCutOff {
		return nil, err
	}

	removed, sumsErr := removeSums(e.Dir, func(name string) bool {
		return strings.Contains(name, "_"+e.Version+"_")
	}, signSums)
	if sumsErr != nil {
		return releases, sumsErr
	}
	if isCutOff && removed > 0 {
		err = nil
	}
	return releases, err
}

// commit changes the entry of each release of the version in a state, and signs that.
func (e Edit) commit(
	ctx context.Context, change func(st state, r repository.Release) error,
) ([]repository.Release, error) {
	unlock, err := Lock(e.Dir)
	if err != nil {
		return nil, err
	}
	defer unlock()

	releases, err := Releases(ctx, e.Dir, e.Version)
	if err != nil {
		return nil, err
	}
	st, err := readState(ctx, e.Dir, e.Report)
	if err != nil {
		return nil, err
	}
	for _, r := range releases {
		if err := change(st, r); err != nil {
			return nil, fmt.Errorf("%s: %w", r.Index, err)
		}
	}

	s := signer{
		dir:      e.Dir,
		keys:     e.Keys,
		expiries: e.Expiries,
		now:      e.Now,
	}
	if err := s.commit(st, func() error { return nil }); err != nil {
		return nil, fmt.Errorf("repository %s: %w", e.Dir, err)
	}
	return releases, nil
}

// Releases returns the releases of a version in the repository in dir, of all if
// version is "".
func Releases(ctx context.Context, dir, version string) ([]repository.Release, error) {
	_, news, err := read(ctx, dir)
	if err != nil || version == "" {
		return news.Releases, err
	}

	releases := slices.DeleteFunc(slices.Clone(news.Releases), func(r repository.Release) bool {
		return r.Version != version
	})
	if len(releases) == 0 {
		return nil, noSuchRelease(dir, version, news.Releases)
	}
	return releases, nil
}

// noSuchRelease says that a repository has no release of a version, and what it has.
func noSuchRelease(dir, version string, all []repository.Release) error {
	err := fault.With(fmt.Errorf("repository %s: no version %q", dir, version),
		fault.NoSuchRelease)
	if len(all) == 0 {
		return err
	}

	var versions []string
	for _, r := range all {
		if !slices.Contains(versions, r.Version) {
			versions = append(versions, r.Version)
		}
	}
	return hint.With(err, "it has %s", strings.Join(versions[:min(5, len(versions))], ", "))
}
