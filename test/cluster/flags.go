package cluster

import (
	"path/filepath"
	"strconv"
)

// Files in the directory that all processes run in.
const (
	caFile      = "ca.crt"
	caKeyFile   = "ca.key"
	accountFile = "accounts.key"
	egressFile  = "egress.yaml"

	authorizationFile = "authorization.json"
)

// etcdFlags: a test's data need not survive a power cut. etcd insists on an
// address for peers; port 0 stays unused.
func etcdFlags(url, data string) []string {
	const peers = "http://127.0.0.1:0"
	return []string{
		"--data-dir=" + data, "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls=" + url, "--advertise-client-urls=" + url,
		"--listen-peer-urls=" + peers, "--initial-advertise-peer-urls=" + peers,
		"--initial-cluster=default=" + peers,
	}
}

func (c *Cluster) apiFlags() []string {
	flags := []string{
		"--etcd-servers=" + c.etcd,
		"--bind-address=" + c.network.loopback,
		"--advertise-address=" + c.network.fromGuest,
		"--secure-port=" + strconv.Itoa(c.port),
		"--service-cluster-ip-range=" + c.network.services,
		"--tls-cert-file=api.crt", "--tls-private-key-file=api.key",
		"--client-ca-file=" + caFile,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file=" + accountFile,
		"--service-account-signing-key-file=" + accountFile,
		"--authorization-config=" + authorizationFile,
		"--enable-admission-plugins=NodeRestriction",
		"--enable-bootstrap-token-auth",
		"--allow-privileged",
		// The kubelet's own certificate is not checked, as in kubeadm's
		// clusters.
		"--kubelet-client-certificate=to-kubelet.crt", "--kubelet-client-key=to-kubelet.key",
		"--kubelet-preferred-address-types=InternalIP",
		"--egress-selector-config-file=" + egressFile,
	}
	if c.audits {
		flags = append(flags, "--audit-policy-file="+auditPolicyFile, "--audit-log-path="+auditLogFile,
			"--audit-log-maxsize=100000") // MB: all of it is in one file.
	}
	return flags
}

// controllerFlags: one instance needs no leader, and would wait for its lease
// after each restart.
func (c *Cluster) controllerFlags() []string {
	controllers := "*,bootstrap-signer-controller,token-cleaner-controller"
	if c.leavesNodes {
		controllers += ",-node-lifecycle-controller"
	}
	return []string{
		"--kubeconfig=controllers.kubeconfig",
		"--leader-elect=false", "--secure-port=0",
		"--controllers=" + controllers,
		"--use-service-account-credentials",
		// Each controller asks for its account at start: at the usual 20
		// requests a second that takes 5 s.
		"--kube-api-qps=1000", "--kube-api-burst=1000",
		"--service-account-private-key-file=" + accountFile,
		"--root-ca-file=" + caFile,
		"--cluster-signing-cert-file=" + caFile, "--cluster-signing-key-file=" + caKeyFile,
		"--service-cluster-ip-range=" + c.network.services,
		// It makes this directory, which would else be /usr/libexec/kubernetes
		// of this host.
		"--flex-volume-plugin-dir=" + filepath.Join(c.dir, "volumes"),
	}
}
