package pki

import (
	"net/netip"
	"slices"
	"time"
)

// Names of the authorities: for all of Kubernetes, for etcd and its clients,
// and for API servers that the API server forwards requests to.
const (
	CA           = "ca"
	EtcdCA       = "etcd-ca"
	FrontProxyCA = "front-proxy-ca"
)

// Names of the leaves: the programs that use them.
const (
	EtcdServer        = "etcd-server"
	EtcdPeer          = "etcd-peer"
	EtcdClient        = "kube-apiserver-etcd-client"
	APIServer         = "kube-apiserver"
	KubeletClient     = "kube-apiserver-kubelet-client"
	FrontProxyClient  = "front-proxy-client"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kubelet           = "kubelet"
	KubeletServer     = "kubelet-server"
	Proxy             = "kube-proxy"
	Agent             = "loam"
)

// Leaf is a certificate to be issued.
type Leaf struct {
	// Name is the name of its file, without .pem.
	Name string
	// Authority is the name of the authority that issues it.
	Authority string

	// User and Groups are who a client is.
	User   string
	Groups []string

	// Names and Addresses are what a server is reached under.
	Names     []string
	Addresses []netip.Addr

	Client, Server bool

	// Lifetime is how long it is valid from now on, a year if it is 0.
	Lifetime time.Duration
}

// Names are the names that the leaves of one node have.
type Names struct {
	// Node is the name of the node.
	Node string
	// API is the address of the Service kubernetes.
	API netip.Addr
	// Extra and ExtraAddresses are further ones for the API server.
	Extra          []string
	ExtraAddresses []netip.Addr
}

// serviceNames are the names under which pods find the API server.
var serviceNames = []string{
	"kubernetes", "kubernetes.default", "kubernetes.default.svc",
	"kubernetes.default.svc.cluster.local",
}

// ServerName is a name that each certificate of an API server has, whatever
// address it is reached at: for tls-server-name in a kubeconfig.
const ServerName = "kubernetes.default.svc"

// Leaves returns the leaves of one node with a control plane.
func Leaves(n Names) []Leaf {
	return slices.Concat(etcdLeaves(n), serverLeaves(n), clientLeaves(n))
}

// etcdLeaves: both server certificates are for clients, too. A member dials its
// peers, and etcd's own gateway dials etcd.
func etcdLeaves(n Names) []Leaf {
	return []Leaf{
		{
			Name:      EtcdServer,
			Authority: EtcdCA,
			User:      n.Node,
			Names:     []string{"localhost", n.Node},
			Addresses: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.IPv6Loopback()},
			Client:    true,
			Server:    true,
		},
		{
			Name:      EtcdPeer,
			Authority: EtcdCA,
			User:      n.Node,
			Names:     []string{n.Node},
			Client:    true,
			Server:    true,
		},
		{Name: EtcdClient, Authority: EtcdCA, User: EtcdClient, Client: true},
	}
}

func serverLeaves(n Names) []Leaf {
	return []Leaf{
		{
			Name:      APIServer,
			Authority: CA,
			User:      APIServer,
			Names:     slices.Concat(serviceNames, []string{n.Node}, n.Extra),
			Addresses: slices.Concat([]netip.Addr{n.API}, n.ExtraAddresses),
			Server:    true,
		},
		{
			Name:      KubeletServer,
			Authority: CA,
			User:      "system:node:" + n.Node,
			Groups:    []string{"system:nodes"},
			Names:     []string{n.Node},
			Server:    true,
		},
	}
}

// clientLeaves: the API server is in system:masters for kubelets, which need no
// role for it then, and the agent for add-ons, whose roles have more rights than
// any role of its own would. The key of the authority is beside them on the same
// disk.
func clientLeaves(n Names) []Leaf {
	client := func(name, authority, user string, groups ...string) Leaf {
		return Leaf{Name: name, Authority: authority, User: user, Groups: groups, Client: true}
	}
	return []Leaf{
		client(KubeletClient, CA, KubeletClient, "system:masters"),
		client(FrontProxyClient, FrontProxyCA, FrontProxyClient),
		client(ControllerManager, CA, "system:kube-controller-manager"),
		client(Scheduler, CA, "system:kube-scheduler"),
		client(Kubelet, CA, "system:node:"+n.Node, "system:nodes"),
		client(Proxy, CA, "system:kube-proxy"),
		client(Agent, CA, Agent, "system:masters"),
	}
}
