package show

import (
	"crypto/x509"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/etcd"
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
	c.Observe(nil, errors.New("connection refused"), EtcdStorageOf(wellEtcd(), 132<<20), []unit.State{
		{Name: "etcd.service", Active: "active", Sub: "running"},
		{Name: "kube-apiserver.service", Active: "activating", Sub: "auto-restart"},
	})
	c.ObserveAddOn("coredns", errors.New("Service kube-dns: absent"))
	c.ObserveAddOn("kube-proxy", nil)

	want := `cluster      plant-7
kubernetes   1.37.2
pods         10.244.0.0/16
services     10.96.0.0/16
api          connection refused
etcd         ok, 12 MiB of 2 GiB, fsync p99 4.0 ms, 132 MiB reserved
add-ons      coredns                          Service kube-dns: absent
             kube-proxy                       ok
units        etcd.service                     active/running
             kube-apiserver.service           activating/auto-restart
certificates etcd-server                      renewed on 2026-12-30, expires on 2027-05-01
             kubelet                          renewed on 2027-01-30, expires on 2027-06-01
`
	if diff := cmp.Diff(want, c.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// wellEtcd is an etcd without a problem.
func wellEtcd() etcd.State {
	return etcd.State{
		Size:     12 << 20,
		InUse:    8 << 20,
		Quota:    2 << 30,
		Member:   1,
		Leader:   1,
		Members:  1,
		FsyncP99: 4 * time.Millisecond,
		Recent:   500,
	}
}

func TestEtcdStorageWithAProblem(t *testing.T) {
	refused := errors.New("http://127.0.0.1:2381/health: 503 service unavailable")
	full := wellEtcd()
	full.Size = 2 << 30
	full.InUse = full.Size - 1<<20
	full.Alarms = []etcd.Alarm{{Member: 1, Kind: etcd.NoSpace}}

	unmetered := wellEtcd()
	unmetered.Recent = 0
	unmetered.MetricsError = errors.New("connection refused")

	slow := wellEtcd()
	slow.FsyncP99 = 34 * time.Millisecond
	slow.Measured = 31 * time.Millisecond

	for _, row := range []struct {
		name   string
		health error
		state  *etcd.State
		want   string
	}{
		{
			name:   "a quota that is full of data",
			health: refused,
			state:  &full,
			want: `etcd         full, 2 GiB of 2 GiB, fsync p99 4.0 ms, no room reserved
             etcd is full of data and refuses writes (NOSPACE): 2.0 GiB of 2 GiB are in use
             hint: delete ConfigMaps, Secrets or Events that no program needs, which etcd still accepts; the node does the rest within minutes
`,
		},
		{
			name:  "metrics that cannot be read",
			state: &unmetered,
			want: `etcd         no-metrics, 12 MiB of 2 GiB, no room reserved
             metrics of etcd: connection refused
`,
		},
		{
			name:  "a timing for a slow disk",
			state: &slow,
			want:  "etcd         ok, 12 MiB of 2 GiB, fsync p99 34 ms, heartbeat 500 ms, election 5000 ms, no room reserved\n",
		},
		{
			name:   "an etcd that does not answer",
			health: refused,
			want:   "etcd         http://127.0.0.1:2381/health: 503 service unavailable\n",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			var storage *EtcdStorage
			if row.state != nil {
				storage = EtcdStorageOf(*row.state, 0)
			}
			c := OwnCluster{Name: "plant-7"}
			c.Observe(row.health, nil, storage, nil)

			_, got, _ := strings.Cut(c.String(), "api          ok\n")
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
