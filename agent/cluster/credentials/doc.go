// Package credentials gets a node its client certificate, keeps it, and lets
// the kubelet join.
//
//	bootstrap token --+
//	                  +--> Joiner --> certificate request --> approved --> Store
//	certificate ------+       ^                                             |
//	                          +-------- renewed, replaced ------------------+
//
// A bootstrap token gets the node its first certificate. [Joiner.Join] renews
// it with the certificate itself. A certificate that expired while the node was
// off is replaced with a token that an operator brings: [Joiner.Identify].
//
// All state is in files, where Gardener's node agent has it, too ([Directory]).
// A request that was cut off is continued, because its key is on disk and its
// name is derived from the key. The kubelet gets the same token in a bootstrap
// kubeconfig of its own, until it has joined.
package credentials
