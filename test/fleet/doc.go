// Package fleet has thousands of real agents in one process, in virtual time: the
// code of agent/cluster, agent/turns and the loop, with a systemd in memory and an
// API server in memory, in one bubble of testing/synctest.
//
//	Fleet ---- member: agent --> Transport --+
//	  |        member: agent --> Transport --+--> apiserver.Server
//	  |           |                                    |
//	  |           | begins, ends to disturb its pods   | each write
//	  |           v                                    v
//	  +------> checker <-------------------------------+
//
// The checker holds each write of the ledger, and each beginning of a disruption,
// against the policy. What is not real: the kubelet, which takes a fixed time to
// restart, and the upgrade of a system beneath its port in the loop, which is a
// restart of the agent with another system.
//
// A course is a small fleet with a seed. Between its agents and the server is a
// network in which requests take their time, and accidents happen that the seed draws:
//
//	course: plan --> accident, now or with a request of the node --> undo
//	  |
//	  +--> heal --> all nodes arrive, within a virtual time
//
// A kill is exact but for one thing, see kill. The seed repeats the accidents, not the
// order of goroutines at the same virtual time.
package fleet
