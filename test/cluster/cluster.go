// Package cluster runs what a node talks to, as it really is: a Kubernetes
// control plane (etcd, kube-apiserver and, on request, the controllers and the
// scheduler) and an OCI registry. All of it is built from source, listens on
// loopback and ends with the test.
package cluster

import (
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// Options are of a cluster to be.
type Options struct {
	// Bind is the address of the API server: 127.0.0.1 if empty, or ::1.
	Bind string
	// Controllers runs kube-controller-manager, which among much else signs
	// the certificates of kubelets.
	Controllers bool
	// Scheduler runs kube-scheduler.
	Scheduler bool
}

// Cluster is a running control plane.
type Cluster struct {
	*host     // where its processes run
	network   network
	port      int // of the API server
	etcd      string
	ca        authority
	api       *process
	egress    *egress
	admin     *http.Client
	anonymous *http.Client
}

// Start starts a control plane, which is ready when Start returns and ends
// with t. Where it has not been built yet, the test is skipped; with CI set,
// it is built (which takes minutes) and what goes wrong is a failure.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := &Cluster{
		host:    newHost(t, "etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"),
		network: networkOf(t, o.Bind),
	}
	c.port = freePort(t, c.network.loopback)
	c.writePKI(t)
	c.egress = newEgress(t, c.port)
	c.write(t, egressFile, egressConfig(c.port))
	c.startEtcd(t)
	c.StartAPI(t)
	c.allowJoining(t)
	if o.Controllers {
		c.startControllers(t)
	}
	if o.Scheduler {
		c.startScheduler(t)
	}
	return c
}

// URL is the API server as this host reaches it.
func (c *Cluster) URL() string { return "https://" + c.address(c.network.loopback) }

// GuestURL is the API server as a QEMU guest with user networking reaches it.
func (c *Cluster) GuestURL() string { return "https://" + c.address(c.network.fromGuest) }

func (c *Cluster) address(ip string) string { return net.JoinHostPort(ip, strconv.Itoa(c.port)) }

// CA is the certificate of the cluster's authority, PEM.
func (c *Cluster) CA() string { return c.ca.pem }

// Route makes the API server reach from (as "10.0.2.15:10250", a guest's
// kubelet) at to (as "127.0.0.1:41234", where QEMU forwards it). Addresses
// without a route are dialled as they are.
func (c *Cluster) Route(from, to string) { c.egress.route(from, to) }

// StopAPI kills the API server: connections to it are reset, new ones refused.
func (c *Cluster) StopAPI(t testing.TB) {
	t.Helper()
	c.api.kill()
	c.admin.CloseIdleConnections()
	c.anonymous.CloseIdleConnections()
}

// StartAPI starts the API server (again), with the same port and data.
func (c *Cluster) StartAPI(t testing.TB) {
	t.Helper()
	c.api = c.start(t, "kube-apiserver", c.apiFlags()...)
	c.await(t, c.api, func() error {
		_, err := c.Do(http.MethodGet, "/readyz", "")
		return err
	})
}

func (c *Cluster) startEtcd(t testing.TB) {
	t.Helper()
	c.etcd = "http://127.0.0.1:" + strconv.Itoa(freePort(t, "127.0.0.1"))
	p := c.start(t, "etcd", etcdFlags(c.etcd, filepath.Join(c.dir, "data"))...)
	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	c.await(t, p, func() error {
		_, err := do(client, request{method: http.MethodGet, url: c.etcd + "/health"})
		return err
	})
}

// startControllers is ready when the controllers have acted once: a pod needs
// the account that they make.
func (c *Cluster) startControllers(t testing.TB) {
	t.Helper()
	c.write(t, "controllers.kubeconfig", c.Kubeconfig(t, "system:kube-controller-manager"))
	p := c.start(t, "kube-controller-manager", c.controllerFlags()...)
	c.await(t, p, func() error {
		_, err := c.Do(http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", "")
		return err
	})
}

// startScheduler does not wait: nobody sees the scheduler but by a pod.
func (c *Cluster) startScheduler(t testing.TB) {
	t.Helper()
	c.write(t, "scheduler.kubeconfig", c.Kubeconfig(t, "system:kube-scheduler"))
	c.start(t, "kube-scheduler", "--kubeconfig=scheduler.kubeconfig", "--leader-elect=false", "--secure-port=0")
}
