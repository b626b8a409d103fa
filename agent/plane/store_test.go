package plane_test

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/mount"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/files"
)

var firstTimes = pki.Times{
	Built: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC),
	Now:   time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC),
}

func named(t *testing.T, name string) plane.Record {
	t.Helper()
	r, err := plane.Decode("cluster.yaml", []byte("apiVersion: loam.dev/v1alpha1\n"+
		"kind: Cluster\nname: "+name+"\nkubernetes: 1.37.2\n"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestInitIsObeyedOnce(t *testing.T) {
	root := files.Root(t)
	steps := 0
	store := plane.NewStore(durable.New(root, func(durable.Step) error { steps++; return nil }))
	if _, found, err := store.Record(); found || err != nil {
		t.Errorf("a new node: %v, %v", found, err)
	}

	r := named(t, "plant-7")
	if _, err := store.Init(r, firstTimes); err != nil {
		t.Fatal(err)
	}
	keys, err := store.Keys.Authorities()
	if err != nil {
		t.Fatal(err)
	}

	// The record changes later, and the document that began it does not.
	changed := r
	changed.Schedulable = new(false)
	if err := store.WriteRecord(changed); err != nil {
		t.Fatal(err)
	}
	before := steps
	got, err := store.Init(r, firstTimes)
	if err != nil || steps != before {
		t.Errorf("once more: %d steps, %v", steps-before, err)
	}
	if diff := cmp.Diff(changed, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
	checkAuthorities(t, store, keys)

	_, err = store.Init(named(t, "plant-8"), firstTimes)
	if !errors.Is(err, plane.ErrOtherCluster) || hint.Of(err) == "" || steps != before {
		t.Errorf("of another cluster: %v; hint %s", err, hint.Of(err))
	}
}

func TestLostKeysAreNotReplaced(t *testing.T) {
	root := files.Root(t)
	store := plane.NewStore(durable.New(root, nil))
	if _, err := store.Init(named(t, "plant-7"), firstTimes); err != nil {
		t.Fatal(err)
	}
	if err := root.RemoveAll(plane.KeysDirectory[1:]); err != nil {
		t.Fatal(err)
	}

	_, err := store.Init(named(t, "plant-7"), firstTimes)
	if !errors.Is(err, pki.ErrAbsent) || !strings.HasPrefix(hint.Of(err), "restore ") {
		t.Errorf("without its keys: %v; hint %s", err, hint.Of(err))
	}
}

// TestALostRecordIsNotReplaced: a new one would have other networks and keys than what
// etcd has.
func TestALostRecordIsNotReplaced(t *testing.T) {
	for _, lost := range []string{plane.RecordFile, plane.StateDirectory} {
		root := files.Root(t)
		store := plane.NewStore(durable.New(root, nil))
		r := named(t, "plant-7")
		if _, err := store.Init(r, firstTimes); err != nil {
			t.Fatal(err)
		}
		data := plane.Directories()[0]
		files.Write(t, filepath.Join(root.Name(), data, "member/snap/db"), "")
		if err := root.RemoveAll(lost[1:]); err != nil {
			t.Fatal(err)
		}

		_, checked := store.CheckInit(r)
		_, err := store.Init(r, firstTimes)
		for _, err := range []error{checked, err} {
			if fault.Of(err) != fault.CannotBeApplied || hint.Of(err) == "" {
				t.Errorf("without %s: %v", lost, err)
			}
		}
		if _, found, _ := store.Record(); found {
			t.Errorf("%s is another one", plane.RecordFile)
		}

		for _, dir := range plane.Directories() { // a reset
			if err := mount.Empty(filepath.Join(root.Name(), dir)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := store.Init(r, firstTimes); err != nil {
			t.Errorf("after a reset: %v", err)
		}
	}
}

func TestARenewalRestartsEtcdAlone(t *testing.T) {
	store := plane.NewStore(durable.New(files.Root(t), nil))
	r := named(t, "plant-7")
	if _, err := store.Init(r, firstTimes); err != nil {
		t.Fatal(err)
	}
	node := plane.Member{
		Name:     "node-1",
		Address:  netip.MustParseAddr("192.0.2.10"),
		Programs: "/opt/kubernetes",
	}
	later := firstTimes
	later.Now = later.Now.AddDate(5, 0, 0)

	var last config.Desired
	for i, row := range []struct {
		times   pki.Times
		renewed int
		changed []string
	}{
		{firstTimes, 12, nil},
		{firstTimes, 0, nil},
		{later, 12, []string{"etcd.service"}},
		{firstTimes, 0, nil},
	} {
		desired, renewed, err := store.Desired(r, node, row.times)
		if err != nil {
			t.Fatal(err)
		}
		if len(renewed) != row.renewed {
			t.Errorf("%d: renewed %v, want %d", i, renewed, row.renewed)
		}
		if diff := cmp.Diff(row.changed, changedUnits(last, desired)); i > 0 && diff != "" {
			t.Errorf("%d: changed units (-want +got):\n%s", i, diff)
		}
		last = desired
	}
}

// TestACertificateIsIssuedOnce, in whatever notation its names are.
func TestACertificateIsIssuedOnce(t *testing.T) {
	r := named(t, "plant-7")
	r.CertificateNames = []string{"::ffff:192.0.2.10", "FD00:0::1", "api.plant.example"}
	store := plane.NewStore(durable.New(files.Root(t), nil))
	if _, err := store.Init(r, firstTimes); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, false} {
		renewed, err := store.Renew(r, "node-1", firstTimes)
		if err != nil || (len(renewed) > 0) != want {
			t.Errorf("issued %v, %v", renewed, err)
		}
	}
}

func TestAnAddressThatDoesNotFit(t *testing.T) {
	root := files.Root(t)
	store := plane.NewStore(durable.New(root, nil))
	r := named(t, "plant-7")
	if _, err := store.Init(r, firstTimes); err != nil {
		t.Fatal(err)
	}

	for address, want := range map[string]string{
		"127.0.0.1":    "of this node is not one of a network",
		"2001:db8::10": "of this node is of another family than 10.96.0.0/16",
		"10.244.3.1":   "of this node is in the network 10.244.0.0/16 of the cluster",
	} {
		node := plane.Member{Name: "node-1", Address: netip.MustParseAddr(address)}
		_, _, err := store.Desired(r, node, firstTimes)
		if err == nil || hint.Of(err) == "" ||
			err.Error() != "cluster plant-7: the address "+address+" "+want {
			t.Errorf("got %v; hint %s", err, hint.Of(err))
		}
	}
	if _, err := root.Stat("var/lib/loam/plane/keys/kubelet.pem"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("something was changed before: %v", err)
	}
}

// changedUnits returns the names of units that are not the same.
func changedUnits(before, after config.Desired) []string {
	var changed []string
	for i, u := range before.Units {
		if !cmp.Equal(u, after.Units[i]) {
			changed = append(changed, u.Name)
		}
	}
	return changed
}

// A system that an upgrade was reverted to may read a later record.
func TestTheRecordOfALaterRelease(t *testing.T) {
	root := files.Root(t)
	store := plane.NewStore(durable.New(root, nil))
	if err := store.WriteRecord(named(t, "plant-7")); err != nil {
		t.Fatal(err)
	}
	text, err := root.ReadFile("var/lib/loam/plane/record.json")
	if err != nil {
		t.Fatal(err)
	}

	for kind, works := range map[string]bool{"Cluster\", \"later\": \"x": true, "Other": false} {
		later := strings.Replace(string(text), "Cluster", kind, 1)
		if err := root.WriteFile("var/lib/loam/plane/record.json", []byte(later), 0o600); err != nil {
			t.Fatal(err)
		}
		_, found, err := store.Record()
		if !found || (err == nil) != works {
			t.Errorf("%v, %v of %s", found, err, later)
		}
	}
}

func checkAuthorities(t *testing.T, s plane.Store, want map[string]pki.Authority) {
	t.Helper()
	have, err := s.Keys.Authorities()
	if err != nil {
		t.Fatal(err)
	}
	for name, authority := range want {
		if !have[name].Certificate.Equal(authority.Certificate) {
			t.Fatalf("%s is another authority", name)
		}
	}
}

// TestTwoWriters: `loam cluster set` and the agent write the record at any time,
// and each reader finds one of the two.
func TestTwoWriters(t *testing.T) {
	root := files.Root(t)
	first := plane.NewRecord(plane.Settings{Name: "a"})
	err := plane.NewStore(durable.New(root, nil)).WriteRecord(first)
	if err != nil {
		t.Fatal(err)
	}

	var writers sync.WaitGroup
	for _, names := range [][]string{nil, {"api.plant.example"}} {
		writers.Go(func() {
			store := plane.NewStore(durable.New(root, nil))
			r := first
			for i := range 100 {
				r.CertificateNames = names[:i%(len(names)+1)]
				err := store.WriteRecord(r)
				if err == nil {
					_, _, err = store.Record()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
}
