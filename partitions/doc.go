// Package partitions says what is on a Loam disk: the definitions in *.conf, in
// the format of repart.d(5) and accepted by systemd-repart, and the partition
// table that follows from them. Types and UUIDs are those of the Discoverable
// Partitions Specification (DPS).
//
//	*.conf --Definitions--> []Definition --+
//	                                       +--Place--> gpt.Table
//	root hash, version, size --> Params ---+
//	gpt.Table --Slots--> two Slots: Empty, Seal, Holds
//
// # The disk
//
// The layout is an EFI system partition (ESP, 1 GiB); the signature of the root
// hash, the verity partition and the root partition of slot A; the same three
// of slot B, which is free at first (label _empty); and the state partition,
// which has the rest of the disk.
//
// The UUID of a root partition is the first half of the verity root hash, the
// UUID of its verity partition the second half. The remaining UUIDs are derived
// from the root hash, so two builds of the same inputs are the same bytes. An
// installation replaces the UUIDs of disk, ESP and state partition by its own
// ([Identity]), so a copy of the published image cannot pass for it.
//
// An image is for disks with sectors of 512 bytes, or of 4096 (loamctl build
// --sector-size). Partition table and FAT are written in the disk's own
// sectors, because Linux mounts no others. An update is the same for both.
package partitions
