// Package boot is PID 1 of the initramfs: it observes the machine, decides
// which slot to run, and makes that slot the root file system.
//
// [Decide] is a pure function of [Facts]. All actions are methods of [Init], or
// of a type that has one: opener, stateMount, epochs. An Init exists only in a
// process that is PID 1 on a ramfs: the same calls from an ordinary root process
// would take /proc and /dev away from the machine. The package forks nothing.
//
// # Steps
//
// Firmware starts systemd-boot, which starts a UKI, whose initramfs has this
// package as /init:
//
//  1. Load dm-verity, erofs, overlay and ext4, and in parallel the drivers of
//     the hardware that sysfs shows, by modalias (firmware/kmod). Device events
//     of the kernel say when to look again. Nothing polls, and no slow
//     controller delays a boot whose disk is elsewhere.
//  2. Find the root and verity partitions by the root hash on the kernel's
//     command line. The root hash is public, so another disk may carry a copy
//     of the system. The disk that the machine was started from has the
//     partition that the boot loader names or, where two have it, is where the
//     firmware's boot option leads. Without an answer, two disks are an error.
//  3. Map dm-verity with restart_on_corruption, and mount the root read-only.
//  4. Prepare the state partition: grow table and partition to the disk (a table
//     that cannot be written is a warning, and the partition keeps its size);
//     format it only if it holds nothing but zeros or our mark; mount it; grow
//     its file system online. At the first boot of an image that was copied to the
//     disk, give disk, ESP and state partition UUIDs of their own, and renew
//     the firmware's boot options that name the old ones. A disk that loamctl
//     flash or an installation wrote has them already. A state in a LUKS2
//     container is opened by a key from the TPM or from an operator
//     (agent/crypt). Then the TPM is locked: it gives the key to nothing that
//     the system runs.
//  5. Mount /etc: the image's directory under an overlay that is new at each
//     boot, with machine ID and host name from the state partition, and the
//     current generation placed in it before systemd starts.
//  6. If an upgrade brought this system and it has not proved itself yet, it is
//     on trial: drop-ins in /run make systemd restart the machine if it does
//     not come up within a quarter of an hour, or its agent does not stay up.
//  7. Switch root and exec systemd. It takes over the watchdog (the hardware's,
//     or the kernel's own), which runs from the moment the drivers are loaded.
//     An /init that hangs restarts the machine after three minutes.
//
// The initramfs forks nothing, so it has no mkfs. It formats the state
// partition by writing a 256 MiB template that mke2fs made at build time, first
// block last, and the kernel's online resize does the rest. A power cut
// anywhere leaves a partition that still asks to be formatted. A superblock
// that a power cut has corrupted between its two sectors is repaired if its
// copy in the second block group agrees.
//
// A state partition that has the error flag of ext4, or cannot be mounted, is
// left as it is: /var is a tmpfs in this boot, and systemd starts
// loam-repair.service, which repairs the partition (agent/repair). /init itself
// restarts for no damage of the state.
//
// An error is shown on every console and in the kernel log, with a hint; after
// 10 seconds the machine restarts.
//
// At boot the package also hands the recorded network to systemd-networkd in
// /run, and sets a clock that is wrong (agent/networkd, agent/clock). It
// decides about a change that was under way (generation.Journal.AtBoot).
//
// # How a value flows
//
//	/sys, firmware, disks --Observe--> Facts --Decide--> Decision
//	                                                        |
//	       systemd <--switch root-- Init.Run: mapVerity, stateMount, etc
//	                                    |
//	                                    +--> boot.json, facts.json in /run/loam
//
// The agent reads boot.json; `loam boot --facts` decides again on facts.json.
package boot
