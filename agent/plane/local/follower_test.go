package local

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/bundle"
	"github.com/loam-os/loam/hint"
)

func TestDecode(t *testing.T) {
	n := newNode(t, plane.Settings{}, "127.0.0.1", "fe80::1", "10.244.0.1", "192.0.2.10", "192.0.2.11")
	d, err := n.decode(t)
	if err != nil {
		t.Fatal(err)
	}

	for name, parts := range map[string][]string{
		"etcd.service": {
			"After=loam-agent.service", "ExecStart=/var/lib/loam/kubernetes/1.37.2/bin/etcd",
		},
		"kube-apiserver.service": {"--advertise-address=192.0.2.10"},
		"kubelet.service":        {"--node-ip=192.0.2.10", "--hostname-override=node-1"},
		"kubernetes-images.service": {
			" name==registry.k8s.io/pause:3.10.1,target.digest==sha256:aaaa ",
			"grep --quiet --line-regexp 2 ||",
			"tar --create --directory=/var/lib/loam/kubernetes/1.37.2/images .",
		},
		"/etc/containerd/config.toml": {
			"registry.k8s.io/pause:3.10.1", "/etc/containerd/pods.conflist.template",
			"SystemdCgroup = true", "/usr/lib/cni",
		},
	} {
		for _, part := range parts {
			if !strings.Contains(textOf(t, d, name), part) {
				t.Errorf("%s has no %s:\n%s", name, part, textOf(t, d, name))
			}
		}
	}

	again, err := n.decode(t)
	if err != nil || again.Digest() != d.Digest() {
		t.Errorf("the same record gives %s, then %s, %v", d.Digest(), again.Digest(), err)
	}
}

func TestNodeWaitsForAnAddressAndABundle(t *testing.T) {
	n := newNode(t, plane.Settings{}, "fd00::1")
	_, err := n.decode(t)
	if err == nil || !strings.Contains(err.Error(), "has no address that fits") || hint.Of(err) == "" {
		t.Errorf("without an address: %v", err)
	}

	n = newNode(t, plane.Settings{}, "192.0.2.10")
	if err := os.RemoveAll(filepath.Join(n.Root, bundle.Directory, "1.37.2")); err != nil {
		t.Fatal(err)
	}
	_, err = n.decode(t)
	if err == nil || !strings.Contains(err.Error(), "has no bundle of Kubernetes 1.37.2") ||
		!strings.HasSuffix(hint.Of(err), "put the bundle into /var/lib/loam/kubernetes/1.37.2") {
		t.Errorf("without a bundle: %v", err)
	}
}

func TestTheRecordIsWatched(t *testing.T) {
	n := newNode(t, plane.Settings{}, "192.0.2.10")
	n.NetworkChanges = func(context.Context) (<-chan struct{}, error) {
		return make(chan struct{}), nil
	}
	changes, err := n.Watch(t.Context())
	if err != nil {
		t.Fatal(err)
	}

	r, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	r.Audit.Policy = plane.AuditMetadata
	if err := n.Store.WriteRecord(r); err != nil {
		t.Fatal(err)
	}
	<-changes
}

// TestPreview: a plan of another record has its changes, and issues nothing.
func TestPreview(t *testing.T) {
	n := newNode(t, plane.Settings{}, "192.0.2.10")
	before, err := n.decode(t)
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := n.Store.Record()
	if err != nil {
		t.Fatal(err)
	}
	serial := n.serial(t, r)

	r.Audit.Policy = plane.AuditMetadata
	n.Now = func() time.Time { return built.AddDate(5, 0, 0) }
	after, err := n.Preview(r)
	if err != nil {
		t.Fatal(err)
	}
	var changed []string
	for i, u := range after.Units {
		if *cmp.Or(u.Content, new("")) != *cmp.Or(before.Units[i].Content, new("")) {
			changed = append(changed, u.Name)
		}
	}
	if !slices.Equal(changed, []string{"kube-apiserver.service"}) || n.serial(t, r) != serial {
		t.Errorf("changed %v, certificate %s, then %s", changed, serial, n.serial(t, r))
	}
}
