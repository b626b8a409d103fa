package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/upgrade/fill"
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
		return bundle.Index{}, news, unreached(err)
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
	return idx, news, unreached(err)
}

// unreached marks the errors of a repository that may go away by themselves.
func unreached(err error) error {
	for _, final := range []error{
		repository.ErrExpired, repository.ErrRollback, repository.ErrUnsigned, repository.ErrMixed,
		repository.ErrInvalid,
		repository.ErrNotFound, repository.ErrTooLarge, repository.ErrNotKept,
	} {
		if errors.Is(err, final) {
			return err
		}
	}
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %w", fill.ErrUnreachable, err)
}

// newest lists the first few versions.
func newest(all []repository.Release) string {
	var versions []string
	for _, r := range all[:min(5, len(all))] {
		versions = append(versions, r.Version)
	}
	return strings.Join(versions, ", ")
}
