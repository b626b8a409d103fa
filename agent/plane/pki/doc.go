// Package pki has the keys and certificates of a cluster that Loam nodes make
// by themselves.
//
//	Store.Create: authorities, all or none --+
//	                                         v
//	Leaves --> Due(now, certificates) --> Store.Renew --> NAME.pem, one by one
//
// [Store.Create] makes the authorities once, [Store.Renew] issues what [Due]
// says, also at boot before any program of the cluster starts. All keys are
// files of root with mode 0600.
//
// # Clocks
//
// Each certificate is valid from the date of the image's kernel. No clock of a
// node is ever before that date, so a clock that goes back makes no certificate
// invalid. Leaves are valid for a year from the clock's time, and renewed when
// a third of it is left. A clock that was behind issues leaves that are renewed
// as soon as it is right.
//
// # Power cuts
//
// The authorities become visible by the rename of their directory, so that
// there are all of them or none. A leaf and its key are one file, which is
// replaced by a rename.
//
// # Names
//
// A leaf has names rather than addresses, because the addresses of a node
// change. Exceptions are loopback, where etcd's clients find it, and the
// address of the Service kubernetes, which Kubernetes gives to each pod.
package pki
