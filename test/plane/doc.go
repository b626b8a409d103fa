// Package plane tests what agent/plane renders with programs that others wrote.
//
//	Record, Node --Render------> flags --> etcd, kube-apiserver, ... run with them
//	             --RenderPods--> flags <-> kubeadm's of the same version
//
// What Loam does differently from kubeadm is in testdata/kubeadm.yaml, each
// difference with its reason. A new version of Kubernetes shows there what is to
// be decided.
//
// Most tests take the newest version. Those of the minor version before, and of the
// upgrade from it, run in make test-all only, as its programs take minutes to build.
//
// The programs run in two ways: in a network of their own, with a clock that a
// test sets, and under the image's systemd in a container (test/container), where
// the configuration engine applies the units. The kubelet runs in neither, since
// it would change settings of the host's kernel.
package plane
