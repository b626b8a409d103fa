// Package cluster cuts the power of a node that is a Kubernetes cluster by itself: its
// tests stop it before every durable step of cluster.init, from an empty disk to the
// first generation, of `loam cluster set` and of a renewal of certificates, with every
// state that the disk may then have (test/power).
//
//	scenario --record--> Recording --cut--> disk --start--> node --check--> error
//
// Afterwards the node starts by the agent's own code (agent/plane/local) and goes on, with
// a second cut while it repairs for a share of the points. It must be one cluster and the
// same one, with whole files, and end as a node that nothing has disturbed. That the
// engine leaves one configuration or the other is proven by test/crash/config.
//
// LOAM_CRASH_POINTS says how many points of each scenario are played ("all" for all of
// them), LOAM_CRASH_SEED which.
package cluster
