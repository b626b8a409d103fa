package plane

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/plane/pki"
)

// object is an object of JSON. Kubernetes reads JSON wherever it reads YAML.
type object map[string]any

// jsonFile returns a file that root alone reads.
func jsonFile(path string, content object) config.File {
	text, err := json.MarshalIndent(content, "", "  ")
	if err != nil { // It holds nothing that JSON cannot express.
		panic(fmt.Sprintf("encode %s: %v", path, err))
	}
	return config.File{Path: path, Mode: 0o600, Content: config.Inline(append(text, '\n'))}
}

// files returns the files that the programs read besides their keys. None of
// them has a secret.
func files(r Record, m Member) []config.File {
	all := []config.File{
		hosts(m),
		kubeconfig(controllerManagerFile, m, pki.ControllerManager),
		kubeconfig(schedulerFile, m, pki.Scheduler),
		kubeconfig(kubeletFile, m, pki.Kubelet),
		jsonFile(kubeletConfigFile, kubeletConfig(r, m)),
	}
	if r.Has(AddOnProxy) {
		all = append(all,
			kubeconfig(proxyFile, m, pki.Proxy),
			jsonFile(proxyConfigFile, proxyConfig(r, m)),
		)
	}
	if r.Audit.Policy != AuditNone {
		all = append(all, jsonFile(auditPolicyFile, auditPolicy(r)))
	}
	return all
}

// hosts returns the file by which the API server finds the kubelet, whose
// certificate has its name: the node has no other server for its own name.
func hosts(m Member) config.File {
	text := "127.0.0.1 localhost\n" +
		"::1 localhost ip6-localhost ip6-loopback\n" +
		"ff02::1 ip6-allnodes\n" +
		"ff02::2 ip6-allrouters\n" +
		fmt.Sprintf("%s %s\n", m.Address, m.Name)
	return config.File{Path: hostsFile, Mode: 0o644, Content: config.Text(text)}
}

// kubeconfig returns a kubeconfig for a client with that leaf. The certificate of
// the API server has no address of the node, so the file says which name it must
// have.
func kubeconfig(path string, m Member, leaf string) config.File {
	const name = "loam"
	return jsonFile(path, object{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": name,
		"contexts": []object{{
			"name":    name,
			"context": object{"cluster": name, "user": name},
		}},
		"clusters": []object{{
			"name": name,
			"cluster": object{
				"server":                APIServerURL,
				"tls-server-name":       pki.ServerName,
				"certificate-authority": m.Keys.Authority(pki.CA),
			},
		}},
		"users": []object{{
			"name": name,
			"user": object{
				"client-certificate": m.Keys.Leaf(leaf),
				"client-key":         m.Keys.Leaf(leaf),
			},
		}},
	})
}

// auditPolicy never has the content of Secrets, and skips what the programs
// themselves do all the time.
func auditPolicy(r Record) object {
	level := "Metadata"
	if r.Audit.Policy == AuditRequest {
		level = "Request"
	}

	return object{
		"apiVersion": "audit.k8s.io/v1",
		"kind":       "Policy",
		"omitStages": []string{"RequestReceived"},
		"rules": []object{
			{"level": "None", "nonResourceURLs": []string{"/livez*", "/readyz*", "/healthz*"}},
			{"level": "None", "verbs": []string{"get", "list", "watch"}},
			{
				"level":     "None",
				"resources": []object{{"group": "coordination.k8s.io", "resources": []string{"leases"}}},
			},
			{
				"level": "Metadata",
				"resources": []object{
					{"group": "", "resources": []string{"secrets", "configmaps", "serviceaccounts/token"}},
					{"group": "authentication.k8s.io", "resources": []string{"tokenreviews"}},
				},
			},
			{"level": level},
		},
	}
}

// kubeletConfig is a KubeletConfiguration (kubelet.config.k8s.io/v1beta1).
func kubeletConfig(r Record, m Member) object {
	c := object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"authentication": object{
			"anonymous": object{"enabled": false},
			"webhook":   object{"enabled": true},
			"x509":      object{"clientCAFile": m.Keys.Authority(pki.CA)},
		},
		"authorization":            object{"mode": "Webhook"},
		"cgroupDriver":             "systemd",
		"clusterDNS":               r.DNS(),
		"clusterDomain":            "cluster.local",
		"containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
		"healthzBindAddress":       "127.0.0.1",
		"healthzPort":              10248,
		"resolvConf":               "/run/systemd/resolve/resolv.conf",
		"seccompDefault":           true,
		"tlsCertFile":              m.Keys.Leaf(pki.KubeletServer),
		"tlsPrivateKeyFile":        m.Keys.Leaf(pki.KubeletServer),
		"tlsMinVersion":            tls13,
		"volumePluginDir":          "/var/lib/kubelet/volumeplugins",
		// The control plane of an idle cluster uses 500 MiB, which pods must
		// leave to it.
		"kubeReserved": object{"cpu": "250m", "memory": "700Mi"},
	}

	if !*r.Schedulable {
		c["registerWithTaints"] = []object{
			{"key": TaintKey, "effect": TaintEffect},
		}
	}
	return c
}

// proxyConfig is a KubeProxyConfiguration (kubeproxy.config.k8s.io/v1alpha1).
func proxyConfig(r Record, m Member) object {
	return object{
		"apiVersion":         "kubeproxy.config.k8s.io/v1alpha1",
		"kind":               "KubeProxyConfiguration",
		"bindAddress":        m.unspecified(),
		"clientConnection":   object{"kubeconfig": proxyFile},
		"clusterCIDR":        strings.Join(r.Pods, ","),
		"healthzBindAddress": proxyHealth,
		"hostnameOverride":   m.Name,
		"metricsBindAddress": "127.0.0.1:10249",
		"mode":               "nftables",
	}
}
