// Package rollout walks all interleavings of small fleets that take turns, with
// the functions of agent/turns.
//
// A state is an API server with a ledger and Nodes, and machines that each know
// what they have read. A transition is one step of one machine, or a fault: a
// machine is killed at any point, the ledger is deleted, a Node is deleted and
// comes back, an answer is lost, a clock is an hour ahead, a change cannot begin
// and is postponed, or is given up and wanted again. In each state, no more
// machines disturb their Node than the policy allows, and none begins after the
// failure that halts the rollout. From each state, without further faults, all
// machines can still end.
package rollout
