package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/loam-os/loam/cmd/loamctl/show"
	"github.com/loam-os/loam/cmd/usage"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/lock"
	"github.com/loam-os/loam/image/packages"
)

// When a build updates the versions of Debian's packages.
const (
	updateNever   = "never"
	updateMissing = "missing"
	updateAlways  = "always"
)

// packagesOptions say which versions of Debian's packages a build has.
type packagesOptions struct{ update string }

func (o *packagesOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.update, "update-packages", updateNever,
		"`WHEN` to write today's versions to mkosi/packages.lock: never, always, or, when the archive "+
			"no longer has some of those in it, missing")
	f.Lookup("update-packages").NoOptDefVal = updateAlways
}

func (o packagesOptions) check() error {
	choices := []string{updateNever, updateMissing, updateAlways}
	if !slices.Contains(choices, o.update) {
		return usage.Errorf("--update-packages=%s: want %s", o.update, strings.Join(choices, ", "))
	}
	return nil
}

// locks returns the versions of the packages, and warns of old ones.
func (b *builder) locks(ctx context.Context) (lock.File, error) {
	if b.options.packages.update == updateAlways {
		return b.updateLocks(ctx)
	}

	f, err := lock.Read(b.lockFile())
	if err != nil {
		return lock.File{}, err
	}

	if warning := staleness(f.Date, time.Now()); warning != "" {
		b.steps.Note("%s", warning)
	}

	return f, nil
}

func (b *builder) lockFile() string {
	return filepath.Join(b.options.source, "mkosi/packages.lock")
}

// staleness warns of packages that are old.
func staleness(date, now time.Time) string {
	age := now.Sub(date)
	if age <= lock.Stale {
		return ""
	}
	return hint.Text(hint.With(
		fmt.Errorf("warning: the packages are of %s, %s ago, without security updates since",
			date.Format(time.DateOnly), show.Days(age)),
		"`loamctl build --update-packages` takes today's",
	))
}

// updateLocks writes the versions of today's packages.
func (b *builder) updateLocks(ctx context.Context) (f lock.File, err error) {
	err = b.steps.Do(
		"packages of today (apt)",
		"is a Debian mirror in reach? --mirror sets another",
		func(w io.Writer) error {
			f, err = packages.Update(ctx, packages.Params{
				Source:   b.options.source,
				Mirrors:  b.options.mirrors,
				Archs:    image.Architectures(),
				Profiles: image.Profiles(),
				Log:      w,
			})
			return err
		},
	)
	if err != nil {
		return lock.File{}, err
	}

	fresh := b.lockFile() + ".new"
	if err := os.WriteFile(fresh, f.Encode(), 0o644); err != nil {
		return lock.File{}, err
	}

	return f, os.Rename(fresh, b.lockFile())
}

// retryWithToday calls do again, with the versions of today's packages, if the
// archive no longer has the versions of the lock and the build may change it.
func (b *builder) retryWithToday(ctx context.Context, do func() error) error {
	err := do()
	var gone *lock.MissingError
	if b.options.packages.update != updateMissing || !errors.As(err, &gone) {
		return err
	}

	b.steps.Note("the archive has other versions: taking today's, into %s", b.lockFile())
	b.packages, err = b.updateLocks(ctx)
	if err != nil {
		return err
	}

	return do()
}
