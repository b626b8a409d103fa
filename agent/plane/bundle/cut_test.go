package bundle

import (
	"crypto/sha256"
	"os"
	"testing"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/judge"
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
	for seed := range uint64(12) {
		all = append(all, power.Loss{Entries: power.Random, Content: power.Random, Seed: seed})
	}
	return all
}

// TestPowerCuts cuts a fetch and the removal of the version before at each durable
// step. A directory with the name of a version is always whole, and the next
// fetch and removal lead to the same.
func TestPowerCuts(t *testing.T) {
	r := newRepo(t)
	want := map[string]map[string][]byte{}
	for _, version := range []string{"1.36.2", "1.36.3"} {
		want[version] = small(version)
		r.publish(t, version, "amd64", want[version])
	}
	from := r.source(t)

	root := files.Root(t)
	before := NewStore(durable.New(root, nil))
	if _, err := before.Fetch(t.Context(), from, request("1.36.2")); err != nil {
		t.Fatal(err)
	}
	base, err := power.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	recorder := power.NewRecorder(root, base)
	s := NewStore(durable.New(root, recorder.Hook("")))
	if _, err := s.Fetch(t.Context(), from, request("1.36.3")); err != nil {
		t.Fatal(err)
	}
	fetched := recorder.Len()
	if err := s.Prune("1.36.3", nil); err != nil {
		t.Fatal(err)
	}
	recording, err := recorder.Recording()
	if err != nil {
		t.Fatal(err)
	}

	every := judge.PickOf(11, 5, 1)
	points := 0
	type point struct {
		disk   [sha256.Size]byte
		pruned bool
	}
	seen := map[point]bool{}
	recording.Replay(func(k int, d *power.Disk) bool {
		if k%every != 0 {
			return true
		}
		for _, loss := range losses() {
			points++
			cut := d.Cut(loss)
			here := point{cut.Sum(), k >= fetched}
			if seen[here] {
				continue
			}
			seen[here] = true

			left := NewStore(durable.New(written(t, cut), nil))
			checkWhole(t, left, want)
			goOn(t, left, from, k >= fetched)
			if t.Failed() {
				t.Fatalf("after a cut before step %d (%s): %s", k, recording.Ops[k].Step, loss)
			}
		}
		return true
	})
	if points*every < 1500 {
		t.Errorf("only %d points", points)
	}
	t.Logf("%d points, %d different", points, len(seen))
}

// small are the files of a bundle without large ones.
func small(version string) map[string][]byte {
	texts := texts(version)
	texts["bin/etcd"] = []byte("etcd")
	texts["bin/kubelet"] = []byte("kubelet of " + version)
	return texts
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

// checkWhole checks each bundle that has the name of its version.
func checkWhole(t *testing.T, s Store, want map[string]map[string][]byte) {
	t.Helper()
	versions, err := s.Versions()
	if err != nil {
		t.Fatal(err)
	}
	for _, version := range versions {
		b, err := s.Open(version)
		if err != nil {
			t.Error(err)
			continue
		}
		checkBundle(t, b, want[version])
	}
}

// goOn fetches the newer version and removes the other, which must not be lost
// before. Nothing else is left.
func goOn(t *testing.T, s Store, from Source, pruned bool) {
	t.Helper()
	if pruned {
		from = Source{Ref: "/absent"} // A fetch that was complete stays complete.
	}
	b, err := s.Fetch(t.Context(), from, request("1.36.3"))
	if err != nil {
		t.Error(err)
		return
	}
	checkBundle(t, b, small("1.36.3"))

	if err := s.Prune("1.36.3", nil); err != nil {
		t.Error(err)
	}
	if names, err := s.names(); err != nil || len(names) != 1 {
		t.Errorf("left is %v, %v", names, err)
	}
}
