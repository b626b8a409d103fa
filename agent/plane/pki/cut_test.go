package pki

import (
	"crypto/sha256"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/power"
)

// losses are what a power cut takes of what was not synced.
func losses() []power.Loss {
	var all []power.Loss
	for _, entries := range []power.Part{power.All, power.None} {
		for _, content := range []power.Part{power.All, power.None, power.Half, power.Zeros} {
			all = append(all, power.Loss{Entries: entries, Content: content})
		}
	}
	for seed := range uint64(25) {
		all = append(all, power.Loss{Entries: power.Random, Content: power.Random, Seed: seed})
	}
	return all
}

// TestPowerCuts cuts a first start and a renewal five years later before each
// durable step, and starts again: the node has the authorities that it had, all
// of them or none, and afterwards every leaf.
func TestPowerCuts(t *testing.T) {
	root := files.Root(t)
	base, err := power.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	recorder := power.NewRecorder(root, base)
	store := NewStore(durable.New(root, recorder.Hook("")), keysDir)

	if err := store.Create("plant-7", at(built)); err != nil {
		t.Fatal(err)
	}
	created := recorder.Len()
	few := Leaves(names)[:2]
	renewLeaves(t, store, few, built)
	later := built.AddDate(5, 0, 0)
	renewedAt := recorder.Len()
	renewLeaves(t, store, few, later)

	recording, err := recorder.Recording()
	if err != nil {
		t.Fatal(err)
	}
	want, err := store.Authorities()
	if err != nil {
		t.Fatal(err)
	}

	points := 0
	type point struct {
		disk    [sha256.Size]byte
		created bool
		now     time.Time
	}
	seen := map[point]bool{}
	recording.Replay(func(k int, d *power.Disk) bool {
		now := built
		if k > renewedAt {
			now = later
		}
		for _, loss := range losses() {
			points++
			cut := d.Cut(loss)
			here := point{cut.Sum(), k >= created, now}
			if seen[here] {
				continue
			}
			seen[here] = true

			left := NewStore(durable.New(written(t, cut), nil), keysDir)
			checkCut(t, left, want, k >= created)
			renewLeaves(t, left, few, now)
			verify(t, left, few, now)
			if t.Failed() {
				t.Fatalf("after a cut before step %d (%s): %s", k, recording.Ops[k].Step, loss)
			}
		}
		return true
	})
	if points < 1000 {
		t.Errorf("only %d points", points)
	}
}

// written returns a directory with what a cut has left.
func written(t *testing.T, d *power.Disk) *os.Root {
	t.Helper()
	root := files.Root(t)
	if err := d.Write(root.Name()); err != nil {
		t.Fatal(err)
	}
	return root
}

// checkCut makes the authorities if a cut has left none.
func checkCut(t *testing.T, s Store, want map[string]Authority, created bool) {
	t.Helper()
	have, err := s.Authorities()
	switch {
	case errors.Is(err, ErrAbsent) && !created:
		if err := s.Create("plant-7", at(built)); err != nil {
			t.Fatal(err)
		}
	case err != nil:
		t.Fatal(err)
	default:
		for name, authority := range want {
			if !have[name].Certificate.Equal(authority.Certificate) {
				t.Fatalf("%s is another authority", name)
			}
		}
	}
}
