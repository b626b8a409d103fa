package cluster

import (
	"strings"
	"time"
)

// Config is what a node must know to be part of a cluster.
type Config struct {
	// Server is the URL of the API server, CA its certificate authorities as
	// PEM.
	Server string
	CA     []byte

	// SecretName is that of the Secret with the node's configuration, in
	// namespace kube-system, until the Node's label says another.
	SecretName string

	// Machine is the name in the node's certificate, Hostname that of the Node
	// object's label kubernetes.io/hostname.
	Machine, Hostname string

	// Zone and KubernetesVersion become labels of the Node; "" for none.
	Zone, KubernetesVersion string

	// Tokens are Secrets whose token is kept in a file.
	Tokens []Token

	// DataVolumeSize is that of the disk for what the kubelet keeps, in bytes;
	// 0 for none.
	DataVolumeSize int64

	// Warnings say, to a person, what was left out where this was read.
	Warnings []string
}

// Token is a Secret of namespace kube-system whose key "token" goes to a file.
// Path is absolute.
type Token struct{ Secret, Path string }

const (
	// namespace has all that is not the Node itself.
	namespace = "kube-system"
	// dataKey is where the Secret of a configuration has it.
	dataKey = "osc.yaml"

	// Labels and annotations of Gardener's contract.
	checksumAnnotation = "checksum/data-script"       // of the Secret: SHA-256 of its osc.yaml
	appliedAnnotation  = "checksum/cloud-config-data" // of the Node: the same of what it runs
	serialAnnotation   = "reconciliation.osc.node-agent.gardener.cloud/serial"
	delayAnnotation    = "node-agent.gardener.cloud/reconciliation-delay"
	restartAnnotation  = "worker.gardener.cloud/restart-systemd-services"
	secretLabel        = "worker.gardener.cloud/gardener-node-agent-secret-name"
	versionLabel       = "worker.gardener.cloud/kubernetes-version"
	roleLabel          = "node-role.kubernetes.io/"
	zoneLabel          = "topology.kubernetes.io/zone"
	hostnameLabel      = "kubernetes.io/hostname"
)

// leasePrefix is before the Node's name in the name of the agent's Lease.
const (
	leasePrefix = "gardener-node-agent-"
	leaseRenew  = 10 * time.Second
	leaseTerm   = 40 * time.Second
)

// commonName is who the node is in its certificate.
func (c Config) commonName() string { return "gardener.cloud:node-agent:machine:" + c.Machine }

// hostname is as the kubelet writes it into the label.
func (c Config) hostname() string { return strings.ToLower(c.Hostname) }
