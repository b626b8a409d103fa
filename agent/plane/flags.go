package plane

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/loam-os/loam/agent/plane/etcd/disk"
	"github.com/loam-os/loam/agent/plane/pki"
)

// Names of the programs of a control plane, and of the node.
const (
	etcd              = "etcd"
	apiServer         = "kube-apiserver"
	controllerManager = "kube-controller-manager"
	scheduler         = "kube-scheduler"
	kubelet           = "kubelet"
	proxy             = "kube-proxy"
)

// Addresses of the programs on loopback, as in clusters of kubeadm.
const (
	etcdURL     = "https://127.0.0.1:2379"
	etcdPeerURL = "https://127.0.0.1:2380"
	etcdMetrics = "http://127.0.0.1:2381"
	proxyHealth = "127.0.0.1:10256"
	apiPort     = 6443
)

// APIServerURL is where the programs of a node reach its API server.
var APIServerURL = fmt.Sprintf("https://127.0.0.1:%d", apiPort)

// Addresses at which the programs of a node say that they are well.
var (
	EtcdHealthURL = etcdMetrics + "/health"
	APIHealthURL  = APIServerURL + "/readyz"

	ProxyHealthURL = "http://" + proxyHealth + "/healthz"
)

// AliveURLs are where the programs answer, by their units, as long as they do not hang. A
// program is alive although it cannot do its work, for which a restart would be no help:
// etcd while it is defragmented, when a read waits, and the others while etcd or the API
// server is away. The kubelet is not among them: each node has one.
var AliveURLs = map[string]string{
	etcd + ".service":              etcdMetrics + "/livez?exclude=serializable_read",
	apiServer + ".service":         APIServerURL + "/livez?exclude=etcd",
	controllerManager + ".service": "https://127.0.0.1:10257/healthz",
	scheduler + ".service":         "https://127.0.0.1:10259/healthz",
	proxy + ".service":             "http://" + proxyHealth + "/livez",
}

// Units returns the units of the programs of a node.
func (r Record) Units() []string {
	programs := []string{etcd, apiServer, controllerManager, scheduler, kubelet}
	if r.Has(AddOnProxy) {
		programs = append(programs, proxy)
	}

	var units []string
	for _, name := range programs {
		units = append(units, name+".service")
	}
	return units
}

// Places of files and directories of the programs.
const (
	etcdData  = "/var/lib/etcd"
	auditLog  = "/var/log/kubernetes/audit.log"
	configDir = "/etc/kubernetes"
	hostsFile = "/etc/hosts"

	auditPolicyFile       = configDir + "/audit-policy.json"
	controllerManagerFile = configDir + "/controller-manager.conf"
	schedulerFile         = configDir + "/scheduler.conf"
	kubeletFile           = configDir + "/kubelet.conf"
	kubeletConfigFile     = configDir + "/kubelet.json"
	proxyFile             = configDir + "/proxy.conf"
	proxyConfigFile       = configDir + "/proxy.json"

	// No cluster has FlexVolumes, but the controller manager makes their
	// directory, which would else be in the read-only /usr.
	flexVolumes = "/run/kube-controller-manager/volumes"
)

// tls13 is the value of --tls-min-version of programs of Kubernetes.
const tls13 = "VersionTLS13"

// flags are the flags of a program by their names, without dashes.
type flags map[string]string

// args returns the flags in the order of their names.
func (f flags) args() []string {
	var args []string
	for _, name := range slices.Sorted(maps.Keys(f)) {
		args = append(args, "--"+name+"="+f[name])
	}
	return args
}

// etcdFlags returns the flags of etcd as the only member. The peer URL has the
// node's name, so that further members can be added whatever its address is.
func etcdFlags(r Record, m Member) flags {
	peer := fmt.Sprintf("https://%s:2380", m.Name)
	f := flags{
		"name":                           m.Name,
		"data-dir":                       etcdData,
		"initial-cluster":                m.Name + "=" + peer,
		"initial-cluster-token":          r.Name,
		"initial-advertise-peer-urls":    peer,
		"listen-peer-urls":               etcdPeerURL,
		"listen-client-urls":             etcdURL,
		"advertise-client-urls":          etcdURL,
		"listen-metrics-urls":            etcdMetrics,
		"cert-file":                      m.Keys.Leaf(pki.EtcdServer),
		"key-file":                       m.Keys.Leaf(pki.EtcdServer),
		"trusted-ca-file":                m.Keys.Authority(pki.EtcdCA),
		"client-cert-auth":               "true",
		"peer-cert-file":                 m.Keys.Leaf(pki.EtcdPeer),
		"peer-key-file":                  m.Keys.Leaf(pki.EtcdPeer),
		"peer-trusted-ca-file":           m.Keys.Authority(pki.EtcdCA),
		"peer-client-cert-auth":          "true",
		"tls-min-version":                "TLS1.3",
		"feature-gates":                  "CompactHashCheck=true,InitialCorruptCheck=true",
		"quota-backend-bytes":            strconv.Itoa(2 << 30),
		"watch-progress-notify-interval": "5s",
	}
	maps.Copy(f, timingFlags(m))
	return f
}

// timingFlags are none for a disk that is fast enough for etcd's own timing.
func timingFlags(m Member) flags {
	t := disk.TimingOf(m.FsyncP99)
	if t == disk.DefaultTiming {
		return flags{}
	}
	return flags{
		"heartbeat-interval": strconv.FormatInt(t.Heartbeat.Milliseconds(), 10),
		"election-timeout":   strconv.FormatInt(t.Election.Milliseconds(), 10),
	}
}

// apiServerFlags: with shutdown-send-retry-after the API server refuses new
// requests when it is told to end, and ends when the others are answered.
// Otherwise it waits for the watches of its clients, too, until a minute is over
// (k8s.io/apiserver, pkg/server/lifecycle_signals.go).
func apiServerFlags(r Record, m Member) flags {
	f := flags{
		"advertise-address":                           m.Address.String(),
		"secure-port":                                 strconv.Itoa(apiPort),
		"tls-cert-file":                               m.Keys.Leaf(pki.APIServer),
		"tls-private-key-file":                        m.Keys.Leaf(pki.APIServer),
		"tls-min-version":                             tls13,
		"client-ca-file":                              m.Keys.Authority(pki.CA),
		"authorization-mode":                          "Node,RBAC",
		"enable-admission-plugins":                    "NodeRestriction",
		"enable-bootstrap-token-auth":                 "true",
		"allow-privileged":                            "true",
		"profiling":                                   "false",
		"shutdown-send-retry-after":                   "true",
		"service-cluster-ip-range":                    strings.Join(r.Services, ","),
		"service-account-issuer":                      "https://kubernetes.default.svc.cluster.local",
		"service-account-key-file":                    m.Keys.ServiceAccountPublic(),
		"service-account-signing-key-file":            m.Keys.ServiceAccount(),
		"etcd-servers":                                etcdURL,
		"etcd-cafile":                                 m.Keys.Authority(pki.EtcdCA),
		"etcd-certfile":                               m.Keys.Leaf(pki.EtcdClient),
		"etcd-keyfile":                                m.Keys.Leaf(pki.EtcdClient),
		"encryption-provider-config":                  m.Keys.Encryption(),
		"encryption-provider-config-automatic-reload": "true",
	}
	maps.Copy(f, kubeletClientFlags(m))
	maps.Copy(f, frontProxyFlags(m))

	if r.Audit.Policy != AuditNone {
		maps.Copy(f, auditFlags())
	}
	return f
}

// kubeletClientFlags: the certificate of a kubelet is checked, and has its name
// rather than its addresses.
func kubeletClientFlags(m Member) flags {
	return flags{
		"kubelet-client-certificate":      m.Keys.Leaf(pki.KubeletClient),
		"kubelet-client-key":              m.Keys.Leaf(pki.KubeletClient),
		"kubelet-certificate-authority":   m.Keys.Authority(pki.CA),
		"kubelet-preferred-address-types": "Hostname",
	}
}

func frontProxyFlags(m Member) flags {
	return flags{
		"requestheader-client-ca-file":       m.Keys.Authority(pki.FrontProxyCA),
		"requestheader-allowed-names":        pki.FrontProxyClient,
		"requestheader-username-headers":     "X-Remote-User",
		"requestheader-group-headers":        "X-Remote-Group",
		"requestheader-extra-headers-prefix": "X-Remote-Extra-",
		"proxy-client-cert-file":             m.Keys.Leaf(pki.FrontProxyClient),
		"proxy-client-key-file":              m.Keys.Leaf(pki.FrontProxyClient),
	}
}

// auditFlags keep at most 1 GB of the audit log.
func auditFlags() flags {
	return flags{
		"audit-policy-file":   auditPolicyFile,
		"audit-log-path":      auditLog,
		"audit-log-mode":      "batch",
		"audit-log-maxsize":   "100",
		"audit-log-maxbackup": "9",
	}
}

// controllerManagerFlags: one instance needs no leader, and would wait for its
// lease after each restart. Each controller asks for its account at start: at
// the usual 20 requests a second that takes 5 s.
func controllerManagerFlags(r Record, m Member) flags {
	f := flags{
		"root-ca-file":                     m.Keys.Authority(pki.CA),
		"service-account-private-key-file": m.Keys.ServiceAccount(),
		"cluster-signing-cert-file":        m.Keys.Authority(pki.CA),
		"cluster-signing-key-file":         m.Keys.AuthorityKey(pki.CA),
		"use-service-account-credentials":  "true",
		"controllers":                      "*,bootstrapsigner,tokencleaner",
		"cluster-name":                     r.Name,
		"allocate-node-cidrs":              "true",
		"cluster-cidr":                     strings.Join(r.Pods, ","),
		"service-cluster-ip-range":         strings.Join(r.Services, ","),
		"flex-volume-plugin-dir":           flexVolumes,
		"kube-api-qps":                     "200",
		"kube-api-burst":                   "400",
	}
	maps.Copy(f, controllerFlags(m, controllerManagerFile))
	return f
}

func schedulerFlags(m Member) flags { return controllerFlags(m, schedulerFile) }

// controllerFlags returns the flags that the controller manager and the
// scheduler have in common. Without the two authorities they would ask the API
// server for them at start, which on an empty disk does not allow it yet.
func controllerFlags(m Member, kubeconfig string) flags {
	return flags{
		"client-ca-file":               m.Keys.Authority(pki.CA),
		"requestheader-client-ca-file": m.Keys.Authority(pki.FrontProxyCA),
		"kubeconfig":                   kubeconfig,
		"authentication-kubeconfig":    kubeconfig,
		"authorization-kubeconfig":     kubeconfig,
		"bind-address":                 "127.0.0.1",
		"leader-elect":                 "false",
		"profiling":                    "false",
		"tls-min-version":              tls13,
	}
}

func kubeletFlags(m Member) flags {
	return flags{
		"config":            kubeletConfigFile,
		"kubeconfig":        kubeletFile,
		"hostname-override": m.Name,
		"node-ip":           m.Address.String(),
	}
}
