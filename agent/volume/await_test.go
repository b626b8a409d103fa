package volume

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestAwait gives await the outcomes of its attempts to mount the volume, the
// last of them for ever.
func TestAwait(t *testing.T) {
	var (
		missing = fmt.Errorf("no disk: %w", ErrNone)
		corrupt = errors.New("e2fsck: exit status 4")
		mounted = State{Device: "/dev/sda"}
	)

	type outcome struct {
		state State
		err   error
	}

	for _, test := range []struct {
		name     string
		outcomes []outcome
		// change is when a disk comes or goes, and again after the same time.
		change time.Duration
		// cancel is when the caller gives up.
		cancel time.Duration

		want     error
		after    time.Duration
		attempts int
		notified []string
	}{
		{name: "the volume is mounted", outcomes: []outcome{{state: mounted}}, attempts: 1},
		{name: "no volume is claimed", outcomes: []outcome{{}}, attempts: 1},
		{
			name:     "the disk comes",
			outcomes: []outcome{{err: missing}, {state: mounted}},
			change:   4 * time.Second,
			after:    4 * time.Second,
			attempts: 2,
			notified: []string{missing.Error()},
		},
		{
			name:     "the disk comes, and no event says so",
			outcomes: []outcome{{err: missing}, {state: mounted}},
			after:    pollInterval,
			attempts: 2,
			notified: []string{missing.Error()},
		},
		{
			name: "a volume that does not work is not tried at each event, " +
				"which the attempt itself causes",
			outcomes: []outcome{{err: corrupt}, {err: corrupt}, {state: mounted}},
			change:   time.Second,
			after:    2 * pollInterval,
			attempts: 3,
			notified: []string{corrupt.Error()},
		},
		{
			name:     "each reason is said once",
			outcomes: []outcome{{err: missing}, {err: missing}, {err: corrupt}, {state: mounted}},
			change:   time.Second,
			after:    2*time.Second + pollInterval,
			attempts: 4,
			notified: []string{missing.Error(), corrupt.Error()},
		},
		{
			name:     "the caller gives up while the disk is missing",
			outcomes: []outcome{{err: missing}},
			cancel:   time.Second,
			want:     context.Canceled,
			after:    time.Second,
			attempts: 1,
			notified: []string{missing.Error()},
		},
		{
			name:     "the caller gives up while the volume does not work",
			outcomes: []outcome{{err: corrupt}},
			cancel:   time.Second,
			want:     context.Canceled,
			after:    time.Second,
			attempts: 1,
			notified: []string{corrupt.Error()},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if test.cancel > 0 {
					time.AfterFunc(test.cancel, cancel)
				}

				attempts := 0
				use := func(context.Context) (State, error) {
					o := test.outcomes[min(attempts, len(test.outcomes)-1)]
					attempts++
					if attempts > 10 {
						return mounted, nil
					}
					return o.state, o.err
				}

				change := func(ctx context.Context) {
					if test.change > 0 {
						c, stop := context.WithTimeout(ctx, test.change)
						defer stop()
						ctx = c
					}
					<-ctx.Done()
				}

				var notified []string
				notify := func(err error) { notified = append(notified, err.Error()) }

				started := time.Now()

				err := await(ctx, use, change, notify)
				if !errors.Is(err, test.want) {
					t.Errorf("%v, want %v", err, test.want)
				}

				if after := time.Since(started); after != test.after {
					t.Errorf("returned after %s, want %s", after, test.after)
				}
				if attempts != test.attempts {
					t.Errorf("%d attempts, want %d", attempts, test.attempts)
				}
				if diff := cmp.Diff(test.notified, notified); diff != "" {
					t.Errorf("notified (-want +got):\n%s", diff)
				}
			})
		})
	}
}
