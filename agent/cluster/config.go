package cluster

import (
	"net/http"
	"strings"

	"github.com/loam-os/loam/agent/cluster/credentials"
)

// Config is what a node needs to belong to a cluster.
type Config struct {
	// Server is the URL of the API server, CA its certificate authorities as
	// PEM.
	Server string
	CA     []byte

	// Transport takes requests in place of connections to Server; nil for none.
	Transport http.RoundTripper

	// SecretName is the name of the Secret with the node's configuration, in
	// namespace kube-system. A label of the Node overrides it.
	SecretName string

	// Machine is the name in the node's certificate, Hostname the value of the
	// Node's label kubernetes.io/hostname.
	Machine, Hostname string

	// Zone and KubernetesVersion become labels of the Node; "" sets none.
	Zone, KubernetesVersion string

	// Tokens are the Secrets whose token is synced to a file.
	Tokens []Token

	// Gardener says that the cluster is Gardener's, by its own files.
	Gardener bool

	// DataVolumeSize is the size of the disk for the kubelet's directory, in
	// bytes; 0 if none.
	DataVolumeSize int64

	// Warnings tell an operator what was ignored when this was read.
	Warnings []string
}

// Token syncs the key "token" of a Secret in namespace kube-system to the file
// at Path, which is absolute.
type Token struct{ Secret, Path string }

const (
	// namespace has all objects but the Node.
	namespace = "kube-system"
	// controlPlaneRole is the role of a Node with a control plane.
	controlPlaneRole = "control-plane"
	// dataKey is the key of the configuration in its Secret.
	dataKey = "osc.yaml"

	// Labels and annotations of Gardener's contract.
	checksumAnnotation = "checksum/data-script" // on the Secret: SHA-256 of its osc.yaml
	// on the Node: SHA-256 of the configuration that it runs
	appliedAnnotation = "checksum/cloud-config-data"
	serialAnnotation  = "reconciliation.osc.node-agent.gardener.cloud/serial"
	delayAnnotation   = "node-agent.gardener.cloud/reconciliation-delay"
	restartAnnotation = "worker.gardener.cloud/restart-systemd-services"
	secretLabel       = "worker.gardener.cloud/gardener-node-agent-secret-name"
	versionLabel      = "worker.gardener.cloud/kubernetes-version"
	roleLabel         = "node-role.kubernetes.io/"
	controlPlaneLabel = roleLabel + controlPlaneRole
	zoneLabel         = "topology.kubernetes.io/zone"
	hostnameLabel     = "kubernetes.io/hostname"
	poolLabel         = "worker.gardener.cloud/pool"

	// Annotations and labels of the turns that nodes take by a policy.
	policyAnnotation = "rollout.loam.dev/policy" // on the Secret
	turnAnnotation   = "loam.dev/turn"           // on the Node: the mark
	// on the Node: a configuration and a system that failed there
	failedAnnotation       = "loam.dev/failed"
	failedSystemAnnotation = "loam.dev/failed-system"
	canaryTriedAnnotation  = "loam.dev/tried" // on the Node of a canary
	retryAnnotation        = "loam.dev/retry" // on the Node: which of those to try once more
	heldAnnotation         = "loam.dev/held"  // on the Node: why it keeps its system

	pinnedLabel = "loam.dev/pinned"
	canaryLabel = "loam.dev/canary"
)

// target returns the API server, with the name that the node has there.
func (c Config) target() credentials.Target {
	return credentials.Target{
		Server:     c.Server,
		CA:         c.CA,
		CommonName: "gardener.cloud:node-agent:machine:" + c.Machine,
		Transport:  c.Transport,
	}
}

// hostname returns Hostname as the kubelet writes it into the label.
func (c Config) hostname() string { return strings.ToLower(c.Hostname) }
