package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/image/lock"
	"github.com/loam-os/loam/image/step"
)

func TestStaleness(t *testing.T) {
	now := time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC)

	for _, test := range []struct {
		name string
		days int
		want string
	}{
		{"of today", 0, ""},
		{"two weeks old", 14, ""},
		{"older", 15, "of 2026-11-08, 15 days ago"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := staleness(now.AddDate(0, 0, -test.days), now)
			if (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// A build that may not take other versions ends; one that may asks the archive.
func TestRetryWithToday(t *testing.T) {
	gone := &lock.MissingError{Problems: []error{errors.New("openssl is gone")}}
	for _, test := range []struct {
		name, update string
		err          error
		asks         bool
	}{
		{"a release", updateNever, gone, false},
		{"a build that takes what there is", updateMissing, gone, true},
		{"another error", updateMissing, errors.New("no room"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			steps, err := step.New(os.Stdout, filepath.Join(dir, "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer steps.Close()

			b := builder{steps: steps}
			b.options.source = dir
			b.options.packages.update = test.update
			b.options.mirrors = []string{"file:" + dir + "/no-mirror"}

			calls := 0
			err = b.retryWithToday(context.Background(), func() error {
				calls++
				return test.err
			})
			asked := err != nil && strings.Contains(err.Error(), "packages of today")
			if calls != 1 || asked != test.asks || (!asked && !errors.Is(err, test.err)) {
				t.Errorf("%d calls, %v", calls, err)
			}
		})
	}
}

func TestUpdatePackagesHasThreeValues(t *testing.T) {
	if err := (packagesOptions{update: "yes"}).check(); err == nil ||
		!strings.Contains(err.Error(), "never, missing, always") {
		t.Error(err)
	}
	if err := (packagesOptions{update: updateMissing}).check(); err != nil {
		t.Error(err)
	}
}
