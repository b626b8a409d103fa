// Package addons has the objects of Kubernetes that a node with a control plane
// keeps in its cluster: the add-ons of the cluster record.
//
//	Record, images --Of--> objects --+
//	                                 v
//	listed at the API server --> Decide --> apply these, delete those
//
// The admission policies for nodes ([Policies]) are kept in the same way, in each
// cluster.
//
// [Of] and [Decide] are pure, and [Reconcile] carries out. Objects are applied by
// server-side apply with a field manager of our own, so that fields of others
// stay, such as the number of replicas that an operator has set.
//
// kube-proxy is an add-on, too, but has no object: it is a unit of the node, which
// agent/plane renders.
package addons
