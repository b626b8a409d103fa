// Package apply changes the configuration of a node. It writes a generation,
// flips to it, places its files, makes systemd do what the plan says, and
// watches whether the units stay well. A journal tells the next start how to
// end a change that was cut off.
//
// # One change
//
//  1. Observe: the units of the image (generation.ReadVendor), the current
//     generation, the states of its units.
//  2. Decide: generation.Expand makes the entries on disk from the desired
//     state, and plan.Diff makes the plan. An obstacle on the node, such as a
//     directory in the place of a file or a link that something else made, is
//     an error here, before anything is touched. [Planner] has only readers:
//     loam plan cannot change the node.
//  3. Apply ([Executor]): write the generation, write the journal, flip, place
//     what changed, one daemon-reload, then the units stage by stage: stops,
//     sockets, containerd, the rest, kubelet. The progress within this boot is
//     in /run.
//  4. Judge (agent/health). A start that failed is owed (owed.json): it is
//     retried with a backoff, across reboots. A configuration counts as
//     applied, and the Node gets its checksum, when nothing is owed and all
//     units that count are well; the reference implementation sets it when
//     every job is done, too.
//  5. Record: append to the history and remove the journal. Each change prunes
//     old generations. Five stay, besides the current one and the one to go
//     back to.
//
// A revert is a change like any other, from the store. The digest of the
// configuration that was reverted is then held: it is not applied again until
// the source has another one, or an operator asks. loam rollback goes to the
// newest generation before the current one that has proven itself.
//
// # How a value flows
//
//	Request -> Planner -> change -> changes -> trial -> changes -> Record
//	                                |     |    judge    accept
//	                              files units           or revert
//
// [Executor] is what package agent calls. [Open] makes it of the types that do the
// work, each with the fields that it uses:
//
//   - [Planner] makes a change (two manifests and a plan) from a [Request].
//   - changes is the state machine: it begins a change with a journal
//     (generation.Journal), activates, finishes and concludes it, or takes it
//     back for a cause.
//   - trial judges the change that is finished, and carries out the verdict.
//   - resumer ends a change that was cut off.
//   - rollbacks goes back for an operator, candidates chooses the generation.
//   - repairs restores what something else changed; removal removes everything.
//   - files places, removes, repairs and verifies paths.
//   - units runs the actions of the plan and keeps progress.json; owedUnits
//     keeps owed.json.
//   - [Ledger] keeps the history and the holds.
//
// At a start, [Executor.Resume] observes a situation, the pure function
// decideResume makes a recovery from it, and resumer carries that out: a change
// that was cut off before the flip is abandoned, after the flip it is
// completed, and a revert always goes on.
package apply
