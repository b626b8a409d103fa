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
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
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
}

// ErrNoRelease says that there is no such release.
var ErrNoRelease = fault.With(errors.New("not in the repository"), fault.NoSuchRelease)

// find returns the release of a version ("" for the newest) of an image for an
// architecture, and what else the repository says.
func (o Releases) find(
	ctx context.Context, imageID, arch, version string, now time.Time,
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
		return r.ImageID != imageID || r.Arch != arch
	})

	all := news.Releases
	at := slices.IndexFunc(all, func(r repository.Release) bool {
		return version == "" || r.Version == version
	})
	if at < 0 {
		err := fmt.Errorf("%s %s for %s: %w", imageID, version, arch, ErrNoRelease)
		if len(all) > 0 {
			err = hint.With(err, "it has %s", newest(all))
		}
		return bundle.Index{}, news, err
	}

	idx, err := all[at].Fetch(ctx, store)
	return idx, news, fill.Unreached(err)
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

	err = fmt.Errorf("fetch %s from %s: %w", name, ref, err)
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
