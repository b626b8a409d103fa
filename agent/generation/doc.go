// Package generation is a node's configuration on disk: versioned, immutable
// trees over a content store, and the one symbolic link whose rename makes a
// tree the current one.
//
// Beneath the root it is given (/var/lib/loam on a node):
//
//	store/sha256/<digest>-<mode>      content, once for each digest and mode
//	store/tree/<digest>/              one directory: hard links to content, and symbolic links
//	                                  to the directories in it
//	generations/000042-<digest12>/    manifest.json, and root -> ../../store/tree/<digest>
//	os/<os version>/current           -> ../../generations/000042-<digest12>
//	os-version                        the OS version that ran last
//	journal.json                      what is being applied; gone when done
//	history.jsonl                     what was applied, with what outcome
//
// The initramfs uses this package before systemd starts, so it stays small:
// no D-Bus, no logger, no child processes.
//
// Besides these, /var/lib/loam has held.json (configurations that are not tried
// again) and owed.json (units whose start has not succeeded yet). On the node
// the links lead through
//
//	/run/loam/state        /var/lib/loam once more, read-only
//	/run/loam/current      -> /run/loam/state/os/<version>/current
//	/etc/hello/greeting    -> /run/loam/current/root/etc/hello/greeting
//
// # Properties
//
// A managed path is a link through /run/loam/current, so one rename changes all
// of them. A write through it gets "read-only file system" and does not reach
// the store. Paths that containers mount by directory are real files; the table
// with the reasons is in place.go. /opt/bin is links, not real files, so that a
// kubelet of 80 MB is stored once.
//
// A change inspects only what it changes: the image's units are read once, the
// store caches its generations, and of the managed paths only those that are
// new on the node are inspected, because the others are watched throughout.
// Where a watch has ended, all are inspected.
//
// Generations share every directory that is the same in both, as trees do in
// git, so the cost of a change does not depend on the size of the
// configuration.
//
// Enablement (*.wants, aliases) is part of the generation, computed from
// [Install] by a pure function. Units stay links: a test with real systemd
// shows that FragmentPath, drop-ins, templates, aliases and masks are right.
//
// All durable writes go through agent/durable.
//
// # Recovery
//
// In a boot that finds a change under way, /init decides before systemd starts
// (Journal.AtBoot): a trial (loam apply --try) ends with any restart, and a
// change under which the machine restarts a second time is reverted. A corrupt
// or lost state file is derived again from the rest: the newest complete
// generation that has proved itself takes over.
package generation
