// Package upgrade brings another system into the slot that does not run, tries
// it, and either keeps it or remembers why not. What to do next follows, by the
// pure function Next, from what is on the disk now; each Op is one step that a
// power cut leaves done or not done, so whoever starts again just goes on.
//
//	disk, boot entries, journal --> View --Next--> Op --do--> disk
//	                                 ^                          |
//	                                 +--------------------------+
//
//	Request --> Preflight --> Begin --> journal: what Next works towards
//	Health before, Health now --> Trial.Judge --> Verdict --> Next
//
// # Where to look
//
//	what comes next             next.go, and drill.go for a drill
//	why an upgrade is refused   preflight.go
//	what happens in a trial     health.go (Trial.Judge)
//	requests, retries, restart  package service, which calls all of this
//	how an upgrade begins       begin.go
//	how the disk is observed    observe.go
//	how a step is carried out   step.go, and entries.go for a boot entry
//	slot, ESP, what is fetched  package disk
//	the records                 journal.go, failures.go, epoch.go, drill.go
//
// # Steps
//
// [Next] looks at the disk as it is (slots, boot entries, journal, failures)
// and returns the one next step. In order: drop the boot entry of what the slot
// held, mark the slot empty (label _empty and systemd's type for partial
// partitions), fill it, read all of it back without the page cache and verify
// it against the root hash, seal it in the partition table, write the UKI to
// clusters that nothing names, note "armed" with the node's health, make the
// boot entry with three tries, restart.
//
// # Trust
//
// A clock that is behind is not believed: metadata expire by the latest of the
// clock, the date of the running kernel, and the time at which the newest
// timestamp was signed, which is in it. Nothing else raises that time, so a
// clock that was ahead, a node's or a signer's, is forgotten when it is right
// again.
//
// An older release takes a permit: a DSSE envelope that names version, node and
// expiry, signed by the keys of the role targets of the newest root.json.
// Nothing on the node, in its configuration or from the cluster can replace it.
// The way back to the other slot needs no permit: that system has run here.
//
// The security epoch, below which no system is brought, rises to what both
// slots have. It is on the state partition and, up to 64, in an NV index of the
// machine's TPM (agent/tpm) if it has one, so that an old state partition does
// not lower it. The TPM has it from the next boot on, and only up to the epoch
// that is in the UKI (os-release, LOAM_SECURITY_EPOCH). From then on /init starts
// no older system. A TPM that is broken, or has another owner, blocks nothing.
// Anyone who controls the machine, or clears the TPM, removes the index.
//
// Firmware is asked before anything is written: the index has the UKI's
// Authenticode digest and its signers' certificates (firmware/authenticode),
// and firmware/secureboot decides by db and dbx (firmware/efivar) as EDK2 does.
// A loader that the firmware would not start does not replace a loader that it
// starts. agent/power knows the battery.
//
// # Boot entries
//
// The recovery entry (\EFI\recovery) is a copy of the UKI of the system that
// has proved itself last, outside of the directory that firmware writes to.
// (The system that was installed is not kept for good: the second update
// overwrites it.) The entry is bad by name, sorts last and is read-only, so the
// loader starts it only if there is no other entry and never writes for it. The
// system that it starts makes its own entry again, in a new directory if the
// old one cannot be read, and so does a system whose entry was damaged. If the
// recovery entry could not be renewed in time, that is done before the slot of
// its system is emptied.
//
// # Trial and fallback
//
// The trial is judged against the health from before (Trial.Judge): only what
// was well and is not counts against it, and only after its time is over. An
// API server that cannot be reached is no verdict, either way. Good: the entry
// loses its tries. Bad: it loses the tries that it has left, and the machine
// restarts. A system that says nothing loses them by the loader. The old system
// then remembers it, with what its last boot left in the journal and in pstore,
// and does not try it again by itself.
//
// Configuration belongs to a version: arming makes the running generation also
// the one that the new system starts with; a fallback finds its own.
//
// The way back (loam rollback --os, --downgrade) meets a loader that starts the
// newest entry. So the newer entry is parked: it is called +0-0, bad without
// a try, and read-only, all in one sector. Bad entries sort last. The firmware
// counts their boots as well, by a rename in two sectors, but not of a
// read-only entry. The older entry gets three tries. If it fails, both are bad,
// the newest sorts first again, and is unparked. An entry that exists already is
// parked, then linked again with its tries: only so is it the last of the
// directory.
//
// A drill (loam drill) is a second entry of the running system, with tries,
// while all others are parked: the running one is the newest of them. The
// entry's name tells which of both a boot is: whether the loader has counted
// since the previous boot. The system is not copied to the other slot: a slot
// is found by its root hash, which would be in both, and the system there is
// what the node can go back to.
//
// A window (upgrade.window) holds back a scheduled restart into another system,
// never the restart out of it.
package upgrade
