package service

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/agent/upgrade/records"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/redact"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/repository"
)

// Releases says where releases are published.
type Releases struct {
	// Ref is a directory or a URL (image/repository, Open), Root the root.json
	// that is trusted first.
	Ref  string
	Root []byte
	Keep repository.Records

	// Built is a time after the running system was built.
	Built time.Time

	// Machine is the machine's ID (machine-id(5)): it decides with which wave a release
	// reaches the machine.
	Machine string
}

// wanted is what is looked for among the releases of a repository.
type wanted struct {
	imageID, arch string
	// version is "" for the newest, running the one that runs.
	version, running string
	// atOnce does not wait for waves.
	atOnce bool
}

// ErrNoRelease says that there is no such release.
var ErrNoRelease = fault.With(errors.New("not in the repository"), fault.NoSuchRelease)

// find returns the release that is wanted, and what else the repository says.
func (o Releases) find(
	ctx context.Context, w wanted, now time.Time,
) (bundle.Index, repository.News, error) {
	store, err := repository.Open(o.Ref)
	if err != nil {
		return bundle.Index{}, repository.News{}, err
	}

	news, err := repository.Update(ctx, store, o.Keep, o.Root,
		repository.Clock{Now: now, Built: o.Built})
	if err != nil {
		return bundle.Index{}, news, fill.Unreached(err)
	}

	news.Releases = slices.DeleteFunc(news.Releases, func(r repository.Release) bool {
		return r.ImageID != w.imageID || r.Arch != w.arch
	})
	r, err := choose(news.Releases, w, o.Machine, news.Time)
	if err != nil {
		return bundle.Index{}, news, err
	}

	idx, err := r.Fetch(ctx, store)
	return idx, news, fill.Unreached(err)
}

// choose returns the release that is wanted of those of an image for an architecture,
// newest first. It takes none that has not reached the machine.
func choose(
	all []repository.Release, w wanted, machine string, now time.Time,
) (repository.Release, error) {
	var later *coming
	for _, r := range all {
		if w.version != "" && r.Version != w.version {
			continue
		}

		from, ok := r.Reaches(machine)
		isReached := w.atOnce || (ok && !from.After(now))
		isNewer := bootentry.CompareVersions(r.Version, w.running) > 0
		switch {
		case isReached && (later == nil || isNewer):
			return r, nil
		case isReached:
			return repository.Release{}, later.refusal()
		case isNewer || w.version != "":
			later = later.orSooner(coming{r.Version, from, ok})
		}
	}

	if later != nil {
		return repository.Release{}, later.refusal()
	}
	err := fmt.Errorf("%s %s for %s: %w", w.imageID, w.version, w.arch, ErrNoRelease)
	if len(all) > 0 {
		err = hint.With(err, "it has %s", newest(all))
	}
	return repository.Release{}, err
}

// coming is a release that reaches the machine later: from a time on, unless that is
// not planned.
type coming struct {
	version   string
	from      time.Time
	isPlanned bool
}

// orSooner returns the one of two that comes sooner, nil being none.
func (c *coming) orSooner(other coming) *coming {
	if c == nil || (other.isPlanned && (!c.isPlanned || other.from.Before(c.from))) {
		return &other
	}
	return c
}

// refusal says when the release reaches the machine.
func (c *coming) refusal() error {
	when := "is not for this machine yet: none of its waves reaches it"
	if c.isPlanned {
		when = c.from.UTC().Format("reaches this machine on Mon, 2 Jan 2006 at 15:04 MST")
	}
	return hint.With(fault.With(fmt.Errorf("%s %s", c.version, when), fault.ReleaseNotYet),
		"`loam upgrade --now` does not wait for its wave")
}

// isWithdrawn reports whether the repository answers, and does not have a version for
// this machine any more.
func (o Releases) isWithdrawn(ctx context.Context, w wanted, now time.Time) (bool, error) {
	_, _, err := o.find(ctx, w, now)
	if errors.Is(err, ErrNoRelease) {
		return true, nil
	}
	return false, err
}

// newest lists the first few versions.
func newest(all []repository.Release) string {
	var versions []string
	for _, r := range all[:min(5, len(all))] {
		versions = append(versions, r.Version)
	}
	return strings.Join(versions, ", ")
}

// underWay is the release of the upgrade under way. It implements
// [fill.Release].
type underWay struct {
	records records.Store
	// ref is the repository of machine.yaml.
	ref string
}

// Pack returns where the upgrade under way gets its chunks, wherever its index
// came from.
func (u underWay) Pack() (ref, name string, err error) {
	idx, err := upgrade.ReadIndex(u.records)
	if err != nil {
		return "", "", err
	}
	ref = u.ref
	if j, err := upgrade.ReadJournal(u.records); err == nil && j != nil && j.Ref != "" {
		ref = j.Ref
	}
	return ref, idx.Pack.Name, nil
}

// named adds to an error of a fetch where the release comes from. What is
// damaged there stays damaged until an operator publishes again.
func (u underWay) named(err error) error {
	code := fault.Of(err)
	ref, name, packErr := u.Pack()
	if packErr != nil || (code != fault.RepositoryDamaged && code != fault.RepositoryUnreachable) {
		return err
	}

	err = fmt.Errorf("fetch %s from %s: %w", name, redact.URLs(ref), err)
	if code == fault.RepositoryDamaged {
		return hint.With(err, "`loamctl publish` of an intact copy repairs it, then `loam upgrade`; "+
			"what was fetched before is kept")
	}
	return err
}

// versionsOf returns the versions of some releases.
func versionsOf(releases []repository.Release) []string {
	var versions []string
	for _, r := range releases {
		versions = append(versions, r.Version)
	}
	return versions
}
