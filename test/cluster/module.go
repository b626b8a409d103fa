package cluster

import "github.com/loam-os/loam/test/program"

// modules pin the programs of others in the directories of their names. To
// update one, run `go get -tool PACKAGE@VERSION` in it; k8s.io/kubernetes
// requires its parts as v0.0.0, so the replace lines there name the version
// once more. Of what they share with each other and with Loam, all have the same
// version (test/layout), so that with empty caches it is compiled once.
var modules = []program.Module{
	{
		Name: "etcd",
		Dir:  "test/cluster/etcd",
		Programs: []program.Program{
			{Name: "etcd", Package: "go.etcd.io/etcd/server/v3"},
			{Name: "etcdutl", Package: "go.etcd.io/etcd/etcdutl/v3"},
		},
	},
	{
		Name:     "coredns",
		Dir:      "test/cluster/images",
		Tags:     "grpcnotrace", // As CoreDNS' own build.
		Programs: []program.Program{{Name: "coredns", Package: "./coredns"}},
	},
	{
		// Most tests of clusters need it, and few need CoreDNS, which takes a minute to build.
		Name:     "pause",
		Dir:      "test/cluster/images",
		Programs: []program.Program{{Name: "pause", Package: "./pause"}},
	},
	{
		Name: "registry",
		Dir:  "test/cluster/registry",
		Programs: []program.Program{
			{Name: "registry", Package: "./registry"},
		},
	},
	{
		Name: "cosign",
		Dir:  "test/cluster/cosign",
		Programs: []program.Program{
			{Name: "cosign", Package: "github.com/sigstore/cosign/v3/cmd/cosign"},
		},
	},
	{
		Name:    "kubernetes",
		Dir:     "test/cluster/kubernetes",
		Release: "k8s.io/kubernetes",
		Tags:    "grpcnotrace,notest,selinux", // As upstream's build (hack/lib/golang.sh).
		Programs: []program.Program{
			{Name: "kube-apiserver", Package: "k8s.io/kubernetes/cmd/kube-apiserver"},
			{
				Name:    "kube-controller-manager",
				Package: "k8s.io/kubernetes/cmd/kube-controller-manager",
			},
			{Name: "kube-proxy", Package: "k8s.io/kubernetes/cmd/kube-proxy"},
			{Name: "kube-scheduler", Package: "k8s.io/kubernetes/cmd/kube-scheduler"},
			{Name: "kubelet", Package: "k8s.io/kubernetes/cmd/kubelet"},
			{Name: "kubeadm", Package: "k8s.io/kubernetes/cmd/kubeadm"},
		},
	},
}

// byName are built only by name: the programs of a control plane of the minor
// versions before, whose names end in their versions, for tests of clusters that have
// them and of upgrades from them, Kubernetes' end-to-end tests, and kubectl.
var byName = []program.Module{
	{
		Name: "etcd-3.6",
		Dir:  "test/cluster/etcd-3.6",
		Programs: []program.Program{
			{Name: "etcd-3.6", Package: "go.etcd.io/etcd/server/v3"},
		},
	},
	{
		Name:    "kubernetes-1.36",
		Dir:     "test/cluster/kubernetes-1.36",
		Release: "k8s.io/kubernetes",
		Tags:    "grpcnotrace,notest,selinux",
		Programs: []program.Program{
			{Name: "kube-apiserver-1.36", Package: "k8s.io/kubernetes/cmd/kube-apiserver"},
			{
				Name:    "kube-controller-manager-1.36",
				Package: "k8s.io/kubernetes/cmd/kube-controller-manager",
			},
			{Name: "kube-scheduler-1.36", Package: "k8s.io/kubernetes/cmd/kube-scheduler"},
			{Name: "kubelet-1.36", Package: "k8s.io/kubernetes/cmd/kubelet"},
			{Name: "kubeadm-1.36", Package: "k8s.io/kubernetes/cmd/kubeadm"},
		},
	},
	{
		Name:    "e2e",
		Dir:     "test/cluster/e2e",
		Release: "k8s.io/kubernetes",
		Tags:    "grpcnotrace,selinux",
		Programs: []program.Program{
			{Name: "agnhost", Package: "k8s.io/kubernetes/test/images/agnhost"},
			{Name: "box", Package: "./box"},
			{Name: "conformance", Package: "./conformance"},
			{Name: "sample-apiserver", Package: "k8s.io/sample-apiserver"},
		},
	},
	{
		Name:     "kubectl",
		Dir:      "test/kubectl",
		Release:  "k8s.io/kubectl",
		Programs: []program.Program{{Name: "kubectl", Package: "./kubectl"}},
	},
}
