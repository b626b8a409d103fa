package local

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/power"
)

// site is what a node finds where it is to make a cluster.
type site struct {
	addresses []string
	// fetched is what the repository answers.
	fetched error
}

// newFirst returns a node that is to make a cluster, at a site that may change.
func newFirst(t *testing.T, s *site) *fixture {
	t.Helper()
	n := newFixture(t, plane.Settings{Name: "plant-7"}, true)
	n.Addresses = func() ([]netip.Addr, error) {
		var all []netip.Addr
		for _, text := range s.addresses {
			all = append(all, netip.MustParseAddr(text))
		}
		return all, nil
	}
	n.bundles.fetch = func(_ context.Context, version string, _ func(int64, int64)) error {
		if s.fetched == nil {
			writeBundle(t, filepath.Join(n.Root, bundle.Directory, version), version)
		}
		return s.fetched
	}
	return n
}

// TestAClusterIsMadeOnceNothingIsAgainstIt: until then the node has nothing of it,
// and it makes the cluster as soon as the site is another one.
func TestAClusterIsMadeOnceNothingIsAgainstIt(t *testing.T) {
	const address = "192.0.2.10"
	absent := fault.With(hint.With(errors.New("not in the repository"), "publish it"),
		fault.NoSuchRelease)
	foreign := fault.With(errors.New("for arm64 only"), fault.WrongArchitecture)
	unplugged := fault.With(errors.New("unplugged"), fault.RepositoryUnreachable)

	for name, row := range map[string]struct {
		site site
		path string
		code fault.Code
	}{
		"a site that has the addresses of the pods": {
			site{addresses: []string{"127.0.0.1", "10.244.7.1"}},
			"cluster.init.pods[0]", fault.CannotBeApplied,
		},
		"a site that has the addresses of the Services": {
			site{addresses: []string{"fe80::1", "10.96.3.4"}},
			"cluster.init.services[0]", fault.CannotBeApplied,
		},
		"no address yet": {
			site{addresses: []string{"127.0.0.1", "fe80::1"}}, "", fault.Failed,
		},
		"a version that the repository does not have": {
			site{[]string{address}, absent}, "cluster.init.kubernetes", fault.NoSuchRelease,
		},
		"a version for other machines": {
			site{[]string{address}, foreign}, "cluster.init.kubernetes", fault.WrongArchitecture,
		},
		"a repository that does not answer": {
			site{[]string{address}, unplugged}, "", fault.RepositoryUnreachable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			now := row.site
			n := newFirst(t, &now)
			_, err := n.settled(t)
			if err == nil || document.PathOf(err) != row.path || fault.Of(err) != row.code {
				t.Errorf("%v, at %q, code %s", err, document.PathOf(err), fault.Of(err))
			}
			n.hasNothing(t)

			now = site{addresses: []string{"10.244.7.1", address}}
			n.Uptime = func() time.Duration { return time.Hour + minPause }
			n.makes(t)
		})
	}
}

// TestABundleThatIsBrought makes the cluster of a node that has no repository.
func TestABundleThatIsBrought(t *testing.T) {
	n := newFirst(t, &site{addresses: []string{"192.0.2.10"}})
	n.bundles.fetch = nil
	if _, err := n.decode(t); err == nil || hint.Of(err) == "" {
		t.Errorf("without a bundle: %v", err)
	}
	n.hasNothing(t)

	version := n.record.Kubernetes
	writeBundle(t, filepath.Join(n.Root, bundle.Directory, version), version)
	n.makes(t)
}

// TestABundleOfAnotherNode is refused before the cluster is made.
func TestABundleOfAnotherNode(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(*bundle.Description)
		code fault.Code
	}{
		"another processor": {
			func(d *bundle.Description) { d.Arch = "riscv64" }, fault.WrongArchitecture,
		},
		"another version": {
			func(d *bundle.Description) { d.Version = "1.36.3" }, fault.CannotBeApplied,
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newFirst(t, &site{addresses: []string{"192.0.2.10"}})
			n.bundles.fetch = nil
			version := n.record.Kubernetes
			dir := filepath.Join(n.Root, bundle.Directory, version)
			writeBundle(t, dir, version)
			b, err := bundle.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			row.edit(&b.Description)
			text, err := json.Marshal(b.Description)
			if err != nil {
				t.Fatal(err)
			}
			files.Write(t, filepath.Join(dir, "bundle.json"), string(text))

			_, err = n.decode(t)
			if fault.Of(err) != row.code || hint.Of(err) == "" ||
				document.PathOf(err) != "cluster.init.kubernetes" {
				t.Errorf("%v, at %q, code %s", err, document.PathOf(err), fault.Of(err))
			}
			n.hasNothing(t)

			writeBundle(t, dir, version)
			n.makes(t)
		})
	}
}

// TestTheTimingOfEtcdIsDecidedOnce, with the cluster: whatever is measured later, etcd
// keeps its flags.
func TestTheTimingOfEtcdIsDecidedOnce(t *testing.T) {
	n := newFirst(t, &site{addresses: []string{"192.0.2.10"}})
	n.beginning.fsyncP99 = 34 * time.Millisecond
	n.makes(t)

	n.FsyncP99 = time.Millisecond // of the next starts
	for _, start := range []string{"the first start", "the next one"} {
		d, err := n.decode(t)
		unit := textOf(t, d, "etcd.service")
		if err != nil || !strings.Contains(unit, "--heartbeat-interval=500 ") {
			t.Errorf("%s: %v\n%s", start, err, unit)
		}
		n.First = false
		n.Follower = New(n.record, n.late())
	}

	// etcd starts without it, too.
	files.Write(t, filepath.Join(n.Root, plane.StateDirectory, "fsync-p99"), "3")
	d, err := n.decode(t)
	if unit := textOf(t, d, "etcd.service"); err != nil || strings.Contains(unit, "--heartbeat") {
		t.Errorf("damaged: %v\n%s", err, unit)
	}
}

// TestPowerCutsOfBegin: a node that has its record has what was measured of its disk.
func TestPowerCutsOfBegin(t *testing.T) {
	n := newFirst(t, &site{addresses: []string{"192.0.2.10"}})
	writeBundle(t, filepath.Join(n.Root, bundle.Directory, n.record.Kubernetes), n.record.Kubernetes)
	n.beginning.fsyncP99 = 34 * time.Millisecond
	root, err := os.OpenRoot(n.Root)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	base, err := power.Read(root)
	if err != nil {
		t.Fatal(err)
	}
	recorder := power.NewRecorder(root, base)
	n.hook = recorder.Hook("")
	if err := n.beginning.begin(t.Context(), n.record); err != nil {
		t.Fatal(err)
	}
	recording, err := recorder.Recording()
	if err != nil {
		t.Fatal(err)
	}

	made := 0
	recording.Replay(func(k int, d *power.Disk) bool {
		for seed := range uint64(20) {
			left := files.Root(t)
			loss := power.Loss{Entries: power.Random, Content: power.Random, Seed: seed}
			if err := d.Cut(loss).Write(left.Name()); err != nil {
				t.Fatal(err)
			}
			store := plane.NewStore(durable.New(left, nil))
			_, found, err := store.Record()
			if err != nil {
				t.Fatal(err)
			}
			p99, err := store.FsyncP99()
			if err != nil || (found && p99 != n.beginning.fsyncP99) {
				t.Fatalf("cut %d: the disk takes %s, %v", k, p99, err)
			}
			if found {
				made++
			}
		}
		return true
	})
	if made == 0 {
		t.Error("no cut left a record")
	}
}

// hasNothing checks that the node has nothing of a cluster, and that what needs one
// waits.
func (n *fixture) hasNothing(t *testing.T) {
	t.Helper()
	_, err := os.Lstat(filepath.Join(n.Root, plane.StateDirectory))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is there: %v", plane.StateDirectory, err)
	}
	if state := n.State(); n.beginning.isDone() || state.Ready || state.Problem != notMade {
		t.Errorf("the cluster has begun: %v, %+v", n.beginning.isDone(), state)
	}
}

// makes checks that the node makes its cluster, once.
func (n *fixture) makes(t *testing.T) {
	t.Helper()
	first, err := n.settled(t)
	if err != nil {
		t.Fatal(err)
	}
	made, found, err := n.Store.Record()
	if err != nil || !found || string(made.Text()) != string(n.record.Text()) {
		t.Errorf("the record %s, %v", made.Text(), err)
	}
	if !n.beginning.isDone() {
		t.Error("the cluster has not begun")
	}

	if state := n.State(); state.Ready || state.Problem != "" {
		t.Errorf("the cluster that starts is %+v", state)
	}

	again, err := n.decode(t)
	if err != nil || again.Digest() != first.Digest() {
		t.Errorf("then %v, digest %s, want %s", err, again.Digest(), first.Digest())
	}
}
