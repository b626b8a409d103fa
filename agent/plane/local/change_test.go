package local

import (
	"context"
	"errors"
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
	n.Fetch = func(context.Context, string, func(int64, int64)) error {
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
	_, err = n.decode(t)
	checkRefused(t, err)
	server, err := n.API()
	if err != nil {
		t.Fatal(err)
	}
	checkRefused(t, n.applyAddOns(t.Context(), server, next, &applied{}))
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
