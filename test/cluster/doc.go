// Package cluster runs what a node talks to, as it really is: a Kubernetes
// control plane (etcd, kube-apiserver and, on request, the controllers and the
// scheduler) and an OCI registry. All of it is built from source, listens on
// loopback and ends with the test, or with Close.
//
//	Build --> programs --Run--> Cluster: etcd, kube-apiserver, controllers
//	                               |
//	                   Do, Watch, NewToken, AdminKubeconfig
//
// Tests that change nothing of a control plane itself have one after the other, from a
// Lender.
//
// make cluster runs the same for an operator.
package cluster
