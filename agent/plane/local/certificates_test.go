package local

import (
	"testing"
	"time"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
)

// TestRenew: at a start, certificates are issued with neither network nor bundle.
func TestRenew(t *testing.T) {
	n := newNode(t, plane.Settings{})
	r, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Renew(r); err != nil {
		t.Fatal(err)
	}
	before := n.serial(t, r)

	n.Now = func() time.Time { return built.AddDate(5, 0, 0) }
	if err := n.Renew(r); err != nil {
		t.Fatal(err)
	}
	if after := n.serial(t, r); after == before {
		t.Error("after five years there is the same certificate")
	}
}

func (n *fixture) serial(t *testing.T, r plane.Record) string {
	t.Helper()
	cert := n.Store.Keys.Certificates(pki.Leaves(r.Names(n.Name)))[pki.Kubelet]
	if cert == nil {
		t.Fatal("there is no certificate")
	}
	return cert.SerialNumber.String()
}
