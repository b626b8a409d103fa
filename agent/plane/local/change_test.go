package local

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
)

// checkRefused: err is about the etcd of the record.
func checkRefused(t *testing.T, err error) {
	t.Helper()
	var wrong document.Errors
	if !errors.As(err, &wrong) || len(wrong) != 1 || wrong[0].Path != "kubernetes" ||
		!strings.Contains(wrong[0].Problem, "etcd 3.8.0") || wrong[0].Hint == "" {
		t.Errorf("got %v", err)
	}
}

// TestAnOlderEtcdIsRefused by `loam cluster set` and in the ConfigMap if the bundle is
// there, and otherwise when it has been fetched.
func TestAnOlderEtcdIsRefused(t *testing.T) {
	n, fake, _ := withAPI(t, "1.36.3")
	n.started(t, "1.36.3", "3.8.0")
	own, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	next := own
	next.Kubernetes = "1.37.2"
	change := func() error {
		_, err := DecodeChange(t.Context(), n.Store, n.Root, "new.json", next.Text(), own)
		return err
	}

	dir := filepath.Join(n.Root, bundle.Directory, "1.37.2")
	n.bundles.fetch = func(context.Context, string, func(int64, int64)) error {
		writeBundle(t, dir, "1.37.2")
		return nil
	}
	err = change()
	if err != nil {
		t.Errorf("before the bundle is there: %v", err)
	}
	err = n.Store.WriteRecord(next)
	if err != nil {
		t.Fatal(err)
	}
	_, err = n.settled(t)
	checkRefused(t, err)
	server, err := n.API()
	if err != nil {
		t.Fatal(err)
	}
	checkRefused(t, n.cluster.addOns.apply(t.Context(), server, next, &applied{}))
	if fake.applied > 0 {
		t.Error("the add-ons of a version that is refused are applied")
	}

	err = n.Store.WriteRecord(own)
	if err != nil {
		t.Fatal(err)
	}
	checkRefused(t, change())
	fake.edit("1.36.3", "1.37.2")
	kept, err := n.agreeOnce(t)
	checkRefused(t, err)
	if kept.Kubernetes != "1.36.3" {
		t.Errorf("the node has %s", kept.Kubernetes)
	}
}

// TestAnOlderEtcd is refused.
func TestAnOlderEtcd(t *testing.T) {
	n := newNode(t, plane.Settings{Kubernetes: "1.36.3"}, "192.0.2.10")
	n.started(t, "1.36.4", "3.8.0")
	_, err := n.decode(t)
	if err == nil || !strings.Contains(err.Error(), "cannot read the data that etcd 3.8.0") {
		t.Errorf("got %v", err)
	}

	n.started(t, "1.36.3", "3.7.3")
	_, err = n.decode(t)
	if err != nil {
		t.Errorf("the version that runs: %v", err)
	}
}

// TestSetAVersionBackThatNeverRan is what the ConfigMap can do as well, with the
// same result.
func TestSetAVersionBackThatNeverRan(t *testing.T) {
	n, _, _ := withAPI(t, "1.36.3")
	own, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	never := own
	never.Kubernetes = "1.37.99"

	_, err = DecodeChange(t.Context(), n.Store, n.Root, "new.json", own.Text(), never)
	if err != nil {
		t.Errorf("back to the version that runs: %v", err)
	}
	n.started(t, "1.37.99", "3.7.3")
	_, err = DecodeChange(t.Context(), n.Store, n.Root, "new.json", own.Text(), never)
	if err == nil {
		t.Error("back from the version that runs: no error")
	}
}

// TestARecordChangedByHand is refused like one of `loam cluster set`. It is not
// published either, and can be corrected in all ways.
func TestARecordChangedByHand(t *testing.T) {
	for name, row := range map[string]struct {
		edit func(*plane.Record)
		path string
	}{
		"another name":           {func(r *plane.Record) { r.Name = "plant-8" }, "name"},
		"other networks":         {func(r *plane.Record) { r.Pods = []string{"10.1.0.0/16"} }, "pods"},
		"an older version":       {func(r *plane.Record) { r.Kubernetes = "1.36.3" }, "kubernetes"},
		"less that is encrypted": {func(r *plane.Record) { r.Encrypt = []string{"secrets"} }, "encrypt"},
	} {
		t.Run(name, func(t *testing.T) {
			n, fake, _ := withAPI(t, "1.37.2")
			n.has("192.0.2.10")
			own, _, err := n.Store.Record()
			if err != nil {
				t.Fatal(err)
			}
			own.Encrypt = []string{"configmaps", "secrets"}
			bad := own
			row.edit(&bad)
			fake.record = string(own.Text())
			err = errors.Join(n.Store.WriteApplied(own), n.Store.WritePublished(own),
				n.Store.WriteRecord(bad))
			if err != nil {
				t.Fatal(err)
			}
			writeBundle(t, filepath.Join(n.Root, bundle.Directory, bad.Kubernetes), bad.Kubernetes)

			if err := n.Renew(own); err != nil {
				t.Fatal(err)
			}
			encryption := filepath.Join(n.Root, plane.KeysDirectory, "encryption.json")
			before, err := os.ReadFile(encryption)
			if err != nil {
				t.Fatal(err)
			}
			if err := n.Renew(bad); err != nil { // a start of the agent
				t.Fatal(err)
			}
			after, err := os.ReadFile(encryption)
			if err != nil || string(after) != string(before) {
				t.Errorf("encrypted were %s, and are %s, %v", before, after, err)
			}

			_, decoded := n.decode(t)
			_, agreed := n.agreeOnce(t)
			for _, err := range []error{decoded, agreed} {
				var wrong document.Errors
				if !errors.As(err, &wrong) || len(wrong) != 1 || wrong[0].Path != row.path {
					t.Errorf("got %v", err)
				}
			}
			if fake.record != string(own.Text()) {
				t.Errorf("published is %s", fake.record)
			}

			_, err = DecodeChange(t.Context(), n.Store, n.Root, "new.json", own.Text(), bad)
			if err != nil {
				t.Errorf("back by `loam cluster set`: %v", err)
			}
			fake.edit(`"none"`, `"metadata"`)
			now, err := n.agreeOnce(t)
			own.Audit.Policy = plane.AuditMetadata
			if err != nil || string(now.Text()) != string(own.Text()) {
				t.Errorf("back by the ConfigMap: %s, %v", now.Text(), err)
			}
			if _, err := n.decode(t); err != nil {
				t.Errorf("then %v", err)
			}
		})
	}
}
