package cluster

import (
	"context"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"time"
)

// Options are of a cluster to be.
type Options struct {
	// Bind is the address of the API server: 127.0.0.1 if empty, or ::1.
	Bind string

	// Controllers runs kube-controller-manager, which among much else signs
	// the certificates of kubelets.
	Controllers bool

	// LeavesNodes has the controllers not judge whether a Node is Ready.
	LeavesNodes bool

	// Scheduler runs kube-scheduler.
	Scheduler bool

	// Audit has the API server record its requests, for [Cluster.Requests].
	Audit bool

	// Authorizers are asked, in this order, about requests that neither the
	// Node nor the RBAC authorizer allows.
	Authorizers []Authorizer
}

// Cluster is a running control plane.
type Cluster struct {
	*host // where its processes run
	endpoint
	etcd   string
	api    *process
	egress *egress
	audits bool

	// leavesNodes is as of Options.
	leavesNodes bool

	authorizers []runningAuthorizer
}

// endpoint is the API server, as its callers reach it.
type endpoint struct {
	network   network
	port      int
	ca        authority
	admin     *http.Client
	anonymous *http.Client
}

// Run starts a control plane of the programs that Build has built, with its
// files and logs in dir. It is ready when Run returns, and runs until Close.
func Run(ctx context.Context, dir string, programs map[string]string, o Options) (*Cluster, error) {
	c := &Cluster{host: &host{dir: dir, programs: maps.Clone(programs)}}
	if err := c.run(ctx, o); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Cluster) run(ctx context.Context, o Options) (err error) {
	c.network, err = networkOf(o.Bind)
	if err != nil {
		return err
	}

	c.port, err = c.reservePort(c.network.loopback)
	if err != nil {
		return err
	}

	c.egress, err = newEgress(c.port)
	if err != nil {
		return err
	}

	c.audits = o.Audit
	c.leavesNodes = o.LeavesNodes
	for _, a := range o.Authorizers {
		if err := c.addAuthorizer(a); err != nil {
			return err
		}
	}

	steps := []func(context.Context) error{
		c.writeFiles, c.startEtcd, c.startAPI, c.allowJoining, c.startAuthorizers,
	}

	if o.Controllers {
		steps = append(steps, c.startControllers)
	}
	if o.Scheduler {
		steps = append(steps, c.startScheduler)
	}

	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}

	return nil
}

func (c *Cluster) writeFiles(context.Context) error {
	if err := c.writePKI(); err != nil {
		return err
	}
	if err := c.writeAuthorization(); err != nil {
		return err
	}
	if err := c.write(auditPolicyFile, auditPolicy); err != nil {
		return err
	}
	return c.write(egressFile, egressConfig(c.port))
}

// ReservePort is [ReservePort] for 127.0.0.1, until Close.
func (c *Cluster) ReservePort() (int, error) { return c.reservePort(ipv4.loopback) }

// Close ends the control plane. Nothing of it is left but the files.
func (c *Cluster) Close() {
	if c.egress != nil {
		c.egress.close()
	}
	c.closeIdle()
	c.end()
}

func (e *endpoint) closeIdle() {
	for _, client := range []*http.Client{e.admin, e.anonymous} {
		if client != nil {
			client.CloseIdleConnections()
		}
	}
}

// URL is the API server as this host reaches it.
func (e *endpoint) URL() string { return "https://" + e.address(e.network.loopback) }

// GuestURL is the API server as a QEMU guest with user networking reaches it.
func (e *endpoint) GuestURL() string { return "https://" + e.address(e.network.fromGuest) }

func (e *endpoint) address(ip string) string { return net.JoinHostPort(ip, strconv.Itoa(e.port)) }

// AdminClient returns the client of one who may do everything. A request takes no longer
// than half a minute.
func (e *endpoint) AdminClient() *http.Client { return e.admin }

// CA is the certificate of the cluster's authority, PEM.
func (e *endpoint) CA() string { return e.ca.pem }

// Route makes the API server reach from (as "10.0.2.15:10250", a guest's
// kubelet) at to (as "127.0.0.1:41234", where QEMU forwards it). Addresses
// without a route are dialled as they are.
func (c *Cluster) Route(from, to string) { c.egress.route(from, to) }

func (c *Cluster) startAPI(ctx context.Context) (err error) {
	c.api, err = c.start("kube-apiserver", c.apiFlags()...)
	if err != nil {
		return err
	}
	return c.await(ctx, c.api, func() error {
		_, err := c.Do(http.MethodGet, "/readyz", "")
		return err
	})
}

func (c *Cluster) startEtcd(ctx context.Context) error {
	port, err := c.reservePort("127.0.0.1")
	if err != nil {
		return err
	}

	c.etcd = "http://127.0.0.1:" + strconv.Itoa(port)
	p, err := c.start("etcd", etcdFlags(c.etcd, filepath.Join(c.dir, "data"))...)
	if err != nil {
		return err
	}

	client := &http.Client{Timeout: time.Second}
	defer client.CloseIdleConnections()
	return c.await(ctx, p, func() error {
		_, err := do(client, request{method: http.MethodGet, url: c.etcd + "/health"})
		return err
	})
}

// startControllers is ready when the controllers have acted once: a pod needs
// the account that they make.
func (c *Cluster) startControllers(ctx context.Context) error {
	err := c.writeKubeconfig("controllers.kubeconfig", "system:kube-controller-manager")
	if err != nil {
		return err
	}

	p, err := c.start("kube-controller-manager", c.controllerFlags()...)
	if err != nil {
		return err
	}

	return c.await(ctx, p, func() error {
		_, err := c.Do(http.MethodGet, "/api/v1/namespaces/default/serviceaccounts/default", "")
		return err
	})
}

// startScheduler does not wait: only a pod shows whether the scheduler runs.
func (c *Cluster) startScheduler(context.Context) error {
	if err := c.writeKubeconfig("scheduler.kubeconfig", "system:kube-scheduler"); err != nil {
		return err
	}
	_, err := c.start("kube-scheduler", "--kubeconfig=scheduler.kubeconfig", "--leader-elect=false",
		"--secure-port=0")
	return err
}
