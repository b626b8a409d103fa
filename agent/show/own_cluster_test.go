package show

import (
	"crypto/x509"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/unit"
)

func TestOwnCluster(t *testing.T) {
	until := func(text string) *x509.Certificate {
		at, err := time.Parse(time.DateOnly, text)
		if err != nil {
			t.Fatal(err)
		}
		return &x509.Certificate{NotAfter: at}
	}
	c := OwnClusterOf(plane.NewRecord(plane.Settings{Name: "plant-7"}), map[string]*x509.Certificate{
		"kubelet":     until("2027-06-01"),
		"etcd-server": until("2027-05-01"),
	})
	c.Observe(nil, errors.New("connection refused"), []unit.State{
		{Name: "etcd.service", Active: "active", Sub: "running"},
		{Name: "kube-apiserver.service", Active: "activating", Sub: "auto-restart"},
	})

	want := `cluster      plant-7
kubernetes   1.37.2
pods         10.244.0.0/16
services     10.96.0.0/16
api          connection refused
etcd         ok
units        etcd.service                     active/running
             kube-apiserver.service           activating/auto-restart
certificates etcd-server                      renewed on 2026-12-30, expires on 2027-05-01
             kubelet                          renewed on 2027-01-30, expires on 2027-06-01
`
	if diff := cmp.Diff(want, c.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
