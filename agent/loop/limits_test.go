package loop

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/limits"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
)

func TestLimitsThatAreUsedUpAndFreed(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	r := &recorder{}
	w.cluster = r
	run(t, w, func(wait func()) {
		last := func() status.Status { return w.shown[len(w.shown)-1] }
		if len(last().Limits) > 0 {
			t.Fatalf("limits %+v", last().Limits)
		}

		w.limits = []limits.Usage{{Name: limits.Watches, Refused: true}}
		w.pass(aliveInterval)
		wait()
		if len(last().Limits) != 1 || last().Limits[0].Code != fault.LimitReached ||
			last().Reason != "a limit of the kernel is used up: watches of inotify" {
			t.Errorf("%s, limits %+v", last().Reason, last().Limits)
		}
		if len(w.told[len(w.told)-1].Limits) != 1 {
			t.Error("a limit that is used up is no news on the consoles")
		}

		shown := len(w.shown)
		w.pass(time.Hour)
		wait()
		if len(w.shown) != shown {
			t.Errorf("published %d times more", len(w.shown)-shown)
		}

		w.limits = nil
		w.pass(limitInterval)
		wait()
		if len(last().Limits) > 0 || last().Health != status.Well {
			t.Errorf("%s, limits %+v", last().Health, last().Limits)
		}
	})

	told := slices.DeleteFunc(r.events, func(e string) bool {
		return !strings.HasPrefix(e, "LimitReached: the kernel gives no more watches")
	})
	if len(told) != 1 {
		t.Errorf("events %q, want one about a limit", r.events)
	}
}

// An error may look like that of a limit, and be of something else.
func TestWarningThatNoLimitExplains(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	w.unwatched = fault.With(fmt.Errorf("read /etc: %w", unix.EAGAIN), fault.LimitReached)
	warnings := func() []string { return w.shown[len(w.shown)-1].Warnings }
	run(t, w, func(wait func()) {
		w.drift <- []string{"/etc/a"}
		wait()
		if !slices.ContainsFunc(warnings(), func(text string) bool {
			return strings.HasPrefix(text, "watch managed paths: read /etc: ")
		}) {
			t.Errorf("warnings %q", warnings())
		}
	})

	w = newFakeNode()
	w.text = "one"
	w.unwatched = fault.With(fmt.Errorf("no more watches: %w", unix.ENOSPC), fault.LimitReached)
	w.limits = []limits.Usage{{Name: limits.Watches, Refused: true}}
	run(t, w, func(wait func()) {
		w.drift <- []string{"/etc/a"}
		wait()
		if len(warnings()) > 0 {
			t.Errorf("warnings %q beside a limit that says so", warnings())
		}
	})
}

// TestChangeWaitsForThreads has a new document while no unit could be started.
func TestChangeWaitsForThreads(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(wait func()) {
		last := func() status.Status { return w.shown[len(w.shown)-1] }
		before := last().Generation

		w.limits = []limits.Usage{{Name: limits.Threads, Refused: true}}
		w.says("two", wait)
		if last().Generation != before || last().Refusal != status.NotApplied ||
			last().Error == nil || last().Error.Code != fault.LimitReached {
			t.Errorf("%s, %s: %+v", last().Generation, last().Refusal, last().Error)
		}

		w.limits = nil
		w.pass(retryDelay)
		wait()
		if last().Generation == before || last().Error != nil {
			t.Errorf("%s: %+v", last().Generation, last().Error)
		}
	})
}
