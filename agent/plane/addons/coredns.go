package addons

import (
	"net/netip"
	"path"
	"strings"

	"github.com/loam-os/loam/agent/plane"
)

const (
	dnsName = "coredns"
	// dnsService is the name that monitoring and other programs look for.
	dnsService = "kube-dns"
)

// dnsLabels select the pods of CoreDNS, as in clusters of kubeadm.
var dnsLabels = fields{"k8s-app": dnsService}

// repository returns the last element of the name of an image, without its tag.
func repository(image string) string {
	name, _, _ := strings.Cut(path.Base(image), ":")
	return name
}

// coreDNS returns the objects of the DNS server of a cluster.
func coreDNS(r plane.Record, image string) []Object {
	of := func(k kind, name string, more fields) Object {
		return object(plane.AddOnCoreDNS, k, name, more)
	}
	role := fields{
		"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:coredns",
	}

	return []Object{
		of(serviceAccount, dnsName, nil),
		of(clusterRole, "system:coredns", fields{"rules": dnsRules()}),
		of(clusterRoleBinding, "system:coredns", fields{
			"roleRef": role,
			"subjects": []fields{
				{"kind": "ServiceAccount", "name": dnsName, "namespace": namespace},
			},
		}),
		of(configMap, dnsName, fields{"data": fields{"Corefile": corefile}}),
		of(deployment, dnsName, fields{"spec": dnsDeployment(image)}).labeled(dnsLabels),
		of(service, dnsService, fields{"spec": dnsServiceSpec(r.DNS())}).labeled(dnsLabels).labeled(
			fields{"kubernetes.io/cluster-service": "true", "kubernetes.io/name": "CoreDNS"},
		).annotated(fields{"prometheus.io/port": "9153", "prometheus.io/scrape": "true"}),
	}
}

func dnsRules() []fields {
	read := func(group string, resources ...string) fields {
		return fields{
			"apiGroups": []string{group},
			"resources": resources,
			"verbs":     []string{"list", "watch"},
		}
	}
	return []fields{
		read("", "endpoints", "services", "pods", "namespaces"),
		read("discovery.k8s.io", "endpointslices"),
	}
}

// corefile is the configuration of CoreDNS. In two places it is not that of
// kubeadm:
//
// CoreDNS does not start if it has no server for other names, as on a network
// without DNS. So it has a last one: a port of its own pod that is closed, which
// answers at once that there is none. With the policy sequential, as of
// resolv.conf(5), it is asked only if no other server answers.
//
// An operator may add servers for further zones, in the ConfigMap coredns-custom,
// in files of names that end with .server.
const corefile = `.:53 {
    errors
    health {
        lameduck 5s
    }
    ready
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
        ttl 30
    }
    prometheus :9153
    forward . /etc/resolv.conf 127.0.0.1:9 {
        policy sequential
        max_concurrent 1000
    }
    cache 30 {
        disable success cluster.local
        disable denial cluster.local
    }
    loop
    reload
    loadbalance
}
import /etc/coredns-custom/*.server
`

// dnsServiceSpec has the addresses that each kubelet tells its pods.
func dnsServiceSpec(addresses []netip.Addr) fields {
	port := func(name string, number int, protocol string) fields {
		return fields{"name": name, "port": number, "protocol": protocol, "targetPort": number}
	}
	return fields{
		"clusterIP":      addresses[0],
		"clusterIPs":     addresses,
		"ipFamilyPolicy": familyPolicy(len(addresses)),
		"selector":       dnsLabels,
		"ports": []fields{
			port("dns", 53, "UDP"), port("dns-tcp", 53, "TCP"), port("metrics", 9153, "TCP"),
		},
	}
}

func familyPolicy(addresses int) string {
	if addresses > 1 {
		return "RequireDualStack"
	}
	return "SingleStack"
}

// dnsDeployment leaves out the number of replicas, which is one then: an operator
// of several nodes may set it.
func dnsDeployment(image string) fields {
	return fields{
		"selector": fields{"matchLabels": dnsLabels},
		"strategy": fields{"type": "RollingUpdate", "rollingUpdate": fields{"maxUnavailable": 1}},
		"template": fields{
			"metadata": fields{"labels": dnsLabels},
			"spec": fields{
				"serviceAccountName": dnsName,
				"priorityClassName":  "system-cluster-critical",
				"dnsPolicy":          "Default",
				"nodeSelector":       fields{"kubernetes.io/os": "linux"},
				"tolerations": []fields{
					{"key": "CriticalAddonsOnly", "operator": "Exists"},
					{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"},
				},
				"topologySpreadConstraints": []fields{{
					"maxSkew":           1,
					"topologyKey":       "kubernetes.io/hostname",
					"whenUnsatisfiable": "ScheduleAnyway",
					"labelSelector":     fields{"matchLabels": dnsLabels},
				}},
				"containers": []fields{dnsContainer(image)},
				"volumes": []fields{
					{"name": "config-volume", "configMap": fields{"name": dnsName}},
					{"name": "custom-volume", "configMap": fields{"name": "coredns-custom", "optional": true}},
				},
			},
		},
	}
}

func dnsContainer(image string) fields {
	port := func(name string, number int, protocol string) fields {
		return fields{"name": name, "containerPort": number, "protocol": protocol}
	}
	mount := func(name, at string) fields {
		return fields{"name": name, "mountPath": at, "readOnly": true}
	}
	get := func(path, port string) fields {
		return fields{"path": path, "port": port, "scheme": "HTTP"}
	}

	return fields{
		"name":            dnsName,
		"image":           image,
		"imagePullPolicy": "IfNotPresent",
		"args":            []string{"-conf", "/etc/coredns/Corefile"},
		"resources": fields{
			"limits":   fields{"memory": "170Mi"},
			"requests": fields{"cpu": "100m", "memory": "70Mi"},
		},
		"ports": []fields{
			port("dns", 53, "UDP"),
			port("dns-tcp", 53, "TCP"),
			port("metrics", 9153, "TCP"),
			port("liveness-probe", 8080, "TCP"),
			port("readiness-probe", 8181, "TCP"),
		},
		"livenessProbe": fields{
			"httpGet":             get("/health", "liveness-probe"),
			"initialDelaySeconds": 60,
			"timeoutSeconds":      5,
			"successThreshold":    1,
			"failureThreshold":    5,
		},
		"readinessProbe": fields{"httpGet": get("/ready", "readiness-probe")},
		"securityContext": fields{
			"allowPrivilegeEscalation": false,
			"readOnlyRootFilesystem":   true,
			"capabilities": fields{
				"add":  []string{"NET_BIND_SERVICE"},
				"drop": []string{"ALL"},
			},
		},
		"volumeMounts": []fields{
			mount("config-volume", "/etc/coredns"),
			mount("custom-volume", "/etc/coredns-custom"),
		},
	}
}
