// Package power records what is done to a directory tree through agent/durable,
// and makes the disks that a power cut at any point of it may leave.
//
//	durable.Dir --Hook--> Recorder --> Recording --Replay--> Disk before each op
//	                                                          |
//	                                       Cut(Loss) --> Disk after a power cut
//
// # make crash
//
// make crash stops the configuration engine before each durable step of many
// changes, of recoveries too, with every state that a disk may then have
// (test/crash/config). This package models what POSIX promises, and less.
// Seeded bugs have to be found.
//
// It also cuts the power in upgrades, in layers:
//
//   - L0 walks through all 81,650 states that upgrades, ways back and drills
//     can lead to, which settles the order of steps.
//   - L1 records the node's own code on a disk in memory
//     (test/crash/upgrade), cuts it at every flush, continues from what is left
//     and cuts again, until an emulator of EDK2's FAT driver and of
//     systemd-boot (test/firmware) has started a million different states.
//     States that read the same after a flush are examined once.
//   - L2 holds that emulator against the writes of real OVMF and systemd-boot,
//     sector by sector (and firmware/secureboot against OVMF with Secure Boot
//     on), and cuts those.
//   - L3 records a whole node in QEMU and has the emulator, fsck.vfat, e2fsck
//     and the agent's reader examine what cuts leave.
//   - L5 kills the agent's process at every step.
//   - L6 seeds twenty bugs, which have to be found.
package power
