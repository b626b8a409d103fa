// Package rollout walks all interleavings of small fleets that take turns, with
// the functions of agent/turns.
//
// A state is an API server with a ledger and Nodes, and machines that each know what
// they have read, and what they keep of it after a write that conflicts. A
// transition is one step of one machine, or a fault: a machine is killed at any
// point, the ledger is deleted, a Node is deleted and comes back, an answer is lost,
// a clock is an hour ahead or behind, an hour passes, the maintenance window closes,
// a person pauses the pool or is in a hurry, a change cannot begin and is postponed,
// or is given up and wanted again. In each state, no more machines disturb their
// Node than the policy allows, in all, of a zone and of a rack. None begins after
// the failure that halts the rollout, while another one has its turn for too long,
// while the pool is paused, or outside of the window. From each state, without
// further faults, all machines can still end, and when they have, the ledger has no
// turn that somebody has given, unless a Node was deleted.
//
// A step that only its own machine notices, and that nothing else changes, is walked at
// once rather than in every order.
package rollout
