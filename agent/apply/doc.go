// Package apply carries out plans: it writes a generation, flips to it, brings
// its files about on the node, has systemd do what the plan says, and watches
// whether the node is the worse for it, with a journal from which the next
// start goes on where this one was cut off.
//
// # One change
//
//  1. Observe: the image's units (generation.ReadVendor), the current
//     generation, the states of the units.
//  2. Decide: generation.Expand makes the entries on disk from the desired
//     state, and plan.Diff the plan. What stands in the way on the node (a
//     directory in the place of a file, a link that something else made) is an
//     error here, before anything is touched. [Planner] has only readers: loam
//     plan cannot change the node.
//  3. Apply ([Executor]): write the generation, write the journal, flip, place
//     what changed, one daemon-reload, then the units stage by stage: stops,
//     sockets, containerd, the rest, kubelet. Progress within this boot is kept
//     in /run.
//  4. Judge (agent/health). A start that failed is owed (owed.json): it is
//     tried again, with a backoff, across reboots. A configuration counts as
//     applied, and the Node gets its checksum, when nothing is owed and all
//     units that count are well; the reference sets it when every job is done,
//     too.
//  5. Record: append to the history and remove the journal. Old generations are
//     pruned with every change: five stay, the current one, and the one to go
//     back to.
//
// The way back is a change like any other, from the store. The digest of what
// was reverted is then held: it is not tried again until the source says
// something else, or an operator asks. loam rollback goes to the newest
// generation before the current one that has proved itself.
//
// A change that is cut off is completed or reverted at the next start,
// whichever the flip says.
package apply
