package bundle

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/judge"
)

// fullDisk is a state partition on which step number at finds no room, and so do
// all after it until there is room.
type fullDisk struct {
	at            int
	errno         unix.Errno
	steps         int
	full, reached bool
}

// isFull is called before each step that needs room.
func (d *fullDisk) isFull() bool {
	if d.steps == d.at && !d.reached {
		d.full = true
		d.reached = true
	}
	d.steps++
	return d.full
}

func (d *fullDisk) hook(s durable.Step) error {
	switch s.Op {
	case durable.Remove, durable.RemoveAll, durable.SyncDir:
		return nil // They need none.
	}
	if d.isFull() {
		return &durable.Fault{Err: d.errno}
	}
	return nil
}

// metadata is a memory on that disk.
type metadata struct {
	memory
	disk *fullDisk
}

func (m metadata) Write(name string, data []byte) error {
	if m.disk.isFull() {
		return fmt.Errorf("write %s: %w", name, m.disk.errno)
	}
	return m.memory.Write(name, data)
}

// TestAFullDiskAtEachStep fills the state partition, or uses up a quota, at each
// step of a fetch in turn: it says so, what the node has stays whole, and the next one goes
// on when there is room.
func TestAFullDiskAtEachStep(t *testing.T) {
	r := newRepo(t)
	want := map[string]map[string][]byte{}
	for _, version := range []string{"1.36.2", "1.36.3"} {
		want[version] = small(version)
		want[version]["bin/kubelet"] = noise(uint64(len(want)), chunk+100)
		r.publish(t, version, "amd64", want[version])
	}

	errnos := []unix.Errno{unix.ENOSPC, unix.EDQUOT}
	at := 0
	for fetchOnFullDisk(t, r, want, &fullDisk{at: at, errno: errnos[at%2]}) {
		at += judge.PickOf(7, 7, 1)
	}
	if at < 50 {
		t.Errorf("only %d steps", at)
	}
}

// fetchOnFullDisk fetches a version beside another, and reports whether that has so
// many steps.
func fetchOnFullDisk(
	t *testing.T, r repo, want map[string]map[string][]byte, disk *fullDisk,
) bool {
	t.Helper()
	root := files.Root(t)
	defer os.RemoveAll(root.Name())
	from := r.source(t)
	before := NewStore(durable.New(root, nil))
	if _, err := before.Fetch(t.Context(), from, request("1.36.2")); err != nil {
		t.Fatal(err)
	}

	from = r.source(t)
	from.Keep = metadata{memory{}, disk}
	s := NewStore(durable.New(root, disk.hook))
	_, err := s.Fetch(t.Context(), from, request("1.36.3"))
	if disk.full {
		if !errors.Is(err, disk.errno) || fault.Of(err) != fault.StateFull || hint.Of(err) == "" {
			t.Errorf("step %d: %v, code %s, hint %q", disk.at, err, fault.Of(err), hint.Of(err))
		}
		checkWhole(t, before, want)
		if _, err := before.Open("1.36.2"); err != nil {
			t.Errorf("step %d: %v", disk.at, err)
		}
		disk.full = false
		_, err = s.Fetch(t.Context(), from, request("1.36.3"))
	}
	if err != nil {
		t.Errorf("step %d: with room: %v", disk.at, err)
	}
	checkWhole(t, before, want)
	if names, err := s.names(); err != nil || len(names) != 2 {
		t.Errorf("step %d: left is %v, %v", disk.at, names, err)
	}
	return disk.reached
}
