// Package live runs a node from memory. It gets the system from the source that
// the kernel's command line names and verifies it with the digests there. Then
// it installs the system on the disk that machine.yaml claims for it, or runs
// it from memory. A system that cannot be installed is run, and reports why.
//
//	command line --ParseParams--> Params, Source
//	                                 |
//	machine.yaml <-- Source --> claims a disk? --> agent/install --> restart
//	                   |               no
//	                   +--> root, tree --> dm-verity --> boot.Init.Run
//
// init-live starts like agent/boot and then takes its system from a [Source]:
// agent/netboot, or agent/usbinstaller (the partition whose UUID is the first
// half of loam.disk=sha256:… on the command line). Root file system and hash
// tree stay as they came, compressed, in a tmpfs. Loop devices, and dm-verity
// with the root hash of the command line, make the root file system from them.
// /var is a tmpfs, or the disk that state of machine.yaml claims: a whole disk
// with the file system of a state partition. machine.yaml is in /run/loam, for
// agent/source.
package live
