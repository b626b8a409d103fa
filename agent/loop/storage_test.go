package loop

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/storage"
	"github.com/loam-os/loam/hint/fault"
)

// state returns a state partition of 8 GiB with free bytes.
func state(free int64) []storage.Usage {
	return []storage.Usage{{Path: "/var", Free: free, Size: 8 << 30}}
}

func TestFullStatePartitionIsInTheFirstStatus(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	w.usage = state(0)
	run(t, w, func(func()) {
		first := w.shown[0]
		if len(first.Storage) != 1 || first.Storage[0].Code != fault.DiskFull {
			t.Errorf("storage %+v", first.Storage)
		}
		last := w.shown[len(w.shown)-1]
		if last.Health != status.Degraded || last.Reason != "the state partition (/var) is full" {
			t.Errorf("%s: %s", last.Health, last.Reason)
		}
		if last.Phase == status.Failed {
			t.Error("the configuration counts as failed")
		}
	})
}

func TestStatePartitionThatBecomesFullAndEmpty(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	w.usage = state(4 << 30)
	r := &recorder{}
	w.cluster = r
	run(t, w, func(wait func()) {
		last := func() status.Status { return w.shown[len(w.shown)-1] }
		if len(last().Storage) > 0 {
			t.Fatalf("storage %+v", last().Storage)
		}

		w.usage = state(1 << 20)
		w.pass(aliveInterval)
		wait()
		if len(last().Storage) != 1 || !last().Storage[0].Full || r.last.Health != status.Degraded {
			t.Errorf("storage %+v", last().Storage)
		}
		if !w.told[len(w.told)-1].Storage[0].Full {
			t.Error("a full disk is no news on the consoles")
		}

		// The same for hours is published once.
		shown := len(w.shown)
		w.pass(3 * time.Hour)
		wait()
		if len(w.shown) != shown {
			t.Errorf("published %d times more", len(w.shown)-shown)
		}

		w.usage = state(4 << 30)
		w.pass(aliveInterval)
		wait()
		if len(last().Storage) > 0 || last().Health != status.Well {
			t.Errorf("%s, storage %+v", last().Health, last().Storage)
		}
	})

	low := slices.DeleteFunc(r.events, func(e string) bool {
		return !strings.HasPrefix(e, "StorageLow: the state partition (/var) is full")
	})
	if len(low) != 1 {
		t.Errorf("events %q, want one about storage", r.events)
	}
}

func TestStatusThatCouldNotBeWrittenIsWrittenLater(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	w.unwritable = syscall.ENOSPC
	run(t, w, func(wait func()) {
		shown := len(w.shown)
		w.pass(aliveInterval)
		wait()
		if len(w.shown) != shown+1 {
			t.Fatalf("tried %d times more, want once", len(w.shown)-shown)
		}

		w.unwritable = nil
		w.pass(aliveInterval)
		wait()
		shown = len(w.shown)
		w.pass(time.Hour)
		wait()
		if len(w.shown) != shown {
			t.Errorf("written %d times more than needed", len(w.shown)-shown)
		}
	})
}
