package plane

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/conformance"
	"github.com/loam-os/loam/test/judge"
)

// TestConformanceOfTheAPI runs those conformance tests of Kubernetes for which no pod has to
// run: its Node is only an object. make cluster-proof runs all of them, make test-all one of
// each group.
func TestConformanceOfTheAPI(t *testing.T) {
	judge.Long(t, "TestFromAnEmptyDiskToFiveYearsLaterAndBack")
	t.Parallel()
	conformance.CheckList(t)
	names := conformance.List()[conformance.API]
	if os.Getenv("LOAM_CLUSTER") == "" {
		names = conformance.OneOfEachGroup(names)
	}
	m := newCluster(t)
	// The tests take no name of the server from a kubeconfig.
	m.record.CertificateNames = []string{m.node.Address.String()}
	m.boot(t)
	m.startControllers(t)
	m.addNode(t)
	m.keepNode(t)

	tests := conformance.Cluster{
		Kubeconfig: m.kubeconfig(t),
		Kubectl:    cluster.Program(t, "kubectl"),
		Start: func(cmd *exec.Cmd) (err error) {
			m.net.do(func() { err = cmd.Start() })
			return err
		},
	}
	tests.Run(t, names)
}

// keepNode renews the Lease of the Node until the test ends, as the kubelet would: without
// that it does not stay Ready.
func (m *machine) keepNode(t *testing.T) {
	t.Helper()
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	lease := func() string {
		return fmt.Sprintf(`{"metadata": {"name": "fake"}, "spec": {"holderIdentity": "fake",
			"leaseDurationSeconds": 40, "renewTime": %q}}`,
			m.now().UTC().Format("2006-01-02T15:04:05.000000Z"))
	}
	m.must(t, http.MethodPost, leases, lease())

	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-time.After(10 * time.Second):
			}
			// The next one follows; a Node that is not Ready fails the tests.
			_, _ = m.do(ctx, http.MethodPatch, leases+"/fake", lease())
		}
	}()
	t.Cleanup(func() { cancel(); <-done })
}

// kubeconfig returns the path of a kubeconfig of an administrator.
func (m *machine) kubeconfig(t *testing.T) string {
	t.Helper()
	root, err := os.OpenRoot(m.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	if err := root.Symlink("../../../../keys", plane.KeysDirectory[1:]); err != nil {
		t.Fatal(err)
	}

	text, err := plane.NewStore(durable.New(root, nil)).Kubeconfig(m.record, plane.Access{
		User:    "admin",
		Group:   "system:masters",
		For:     12 * time.Hour,
		Address: m.node.Address,
	}, m.now())
	if err != nil {
		t.Fatal(err)
	}
	place := filepath.Join(m.dir, "kubeconfig")
	if err := os.WriteFile(place, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return place
}
