// Package turns decides which nodes of a pool may change now, so that never
// more of them are away than a policy allows, and a bad change stops at the
// first nodes. It is pure: values in, a step out.
//
//	Policy (people write it) ----+
//	Ledger (a Lease) ------------+--> Decide --> Take | Wait | Stop
//	Fleet (a list of Nodes) -----+
//	Me, the clock ---------------+
//
//	View: Ledger, Fleet, Turn, mark, need --> Next --> one Step
//
// The [Ledger] is a Lease that the nodes of a pool share. A node that wants to
// restart something adds itself to the holders by a compare-and-swap, and
// removes itself once it is well again. [Next] says what comes next for one
// node; a caller does one [Step] and asks again:
//
//	save the turn (durable) -> take -> mark the own Node -> read the ledger
//	    -> save -> change the node -> save how it went -> give
//	    -> remove the mark -> save
//
// A node may change from the second save to the third only. A turn that is given is
// good for nothing else, also if the answer to the write is lost and the next
// configuration comes before the node knows.
//
// A turn does not expire: a node that died while it changed is away, and counts
// as long as its Node is there, also if the policy does not select that any more.
// It ends when its node gives it or when a person removes it. The write that records
// a failure also halts the rollout, so no other node can begin between the two.
//
// A change that cannot begin, because the node cannot be drained, is postponed:
// the node gives its turn back unused, pauses, and goes last. A configuration and
// a system have a pause each.
//
// Of control planes, one is away at a time, whatever the policy says.
//
// Canaries go first: no other node takes a turn for a target before each canary
// that can has given its own. A canary notes that on its Node before it gives
// its turn, so the others know it from the list of Nodes, also with a new ledger.
//
// Each target has an order of the nodes, by a hash. A node asks for a turn when it is among
// the next ones, or when nobody has for a while: if all asked at once, most would write in
// vain. How far the nodes are is in the ledger, as the rank of those that took a turn last:
// nodes that run the target already take none, and nobody knows how many they are.
//
// A list of the Nodes of a large pool is dear, so a node lists them only when the ledger,
// with its [Glance] at the list before, lets it begin. The labels of canaries and pinned
// Nodes are lists of their own: where there are none, one node in a while looks for all.
// A node whose write another one preceded uses its list once more ([Seen.Later]). If each
// write needed a list, others would write during most of them, and few would succeed.
//
// A pool has one ledger, not one for each zone: with 250 turns at once, 5,000 nodes restart
// their kubelets by it in 7 minutes, of which 5 are the limit alone (docs/figures.md).
// Which nodes are away without a turn is not in the ledger, where it would be old: that is
// read from the Nodes before each turn, some seconds before it at most.
//
// A ledger has the rollout of one configuration, in which a newer one takes the
// place of an older one, and one of each system that nodes are upgraded to. All
// turns count together; each rollout has its own counts and halt. A node keeps
// its turn over the restart with another system.
//
// A node that only restarts something takes a turn without a rollout: it counts as
// away, whether a rollout is halted or not, and is no step of one.
//
// A ledger that was deleted is made again from the marks of the Nodes, and from
// what they remember of failures: a node notes its failure there before it gives
// its turn, so a halt outlives the ledger, until a later change went well on the
// nodes that failed. The node that finds no ledger creates one as restoring, lists
// the Nodes, records those with a mark, which names its ledger, and makes the ledger
// running. No node takes or gives a turn before that.
// The order matters: a node that marks itself after the list reads the ledger
// after its mark, and finds another one.
//
// test/crash/rollout walks all interleavings of small fleets with these
// functions.
package turns
