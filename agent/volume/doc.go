// Package volume finds the disks for the kubelet's data and for etcd's, and never
// takes a disk that holds anything.
//
//	sysfs, mounts, contents --Observe--> Facts --+
//	                                             +--Decide--> Choice | Refusal
//	machine.yaml --> Record: Claim --------------+              |
//	                                                            v
//	/var/lib/kubelet <-- mount <-- migrate what was there <-- Maker.Make
//
// What is different for the two is data: a [Purpose]. This page is about the
// kubelet's volume ([Data]). That of etcd ([Etcd]) has no migration: it is claimed
// before etcd has data, and refused afterwards. A disk that both claims match
// becomes neither.
//
// A disk is formatted only if it is not in use, its first and last MiB are
// zero, it has no signature of a known table, file system, volume manager or
// RAID, and the claim means it and no other. A volume that was made before is
// found by its label and used, whatever other disks hold. In all other cases
// there is a Refusal. It says of each disk what stands in the way, and which
// claim would be accepted.
//
// # Observe and decide
//
// [Observe] reads what sysfs, mounts and swap areas say about each disk, and
// [ReadContent] what is on it: all signatures that libblkid knows, and the
// copies that it does not look for (the end of the GPT, backup superblocks of
// ext, XFS, Btrfs and OCFS2, all labels of ZFS and BlueStore, the content of a
// first partition at 1 MiB whose table is gone), for sectors of 512 and 4096
// bytes.
//
// [Decide] is pure. It says which disk dataVolume of machine.yaml means, or the
// size that Gardener's configuration asks for. All parts of a disk that matter
// must have been readable before it is formatted. A volume (label KUBEDEV,
// which is Gardener's) is found again before any empty disk. If the node had a
// volume and it is absent, only a claim by serial number or path takes another
// disk. loam disks shows all of this.
//
// The tests of the package use 10,000 generated disks, an oracle, seeded bugs,
// blkid and the real mkfs tools.
//
// # Format and mount
//
// Format copies to the disk what mkfs has written to a sparse file, a mark
// first and the first sector last. A power cut leaves an empty disk, the mark,
// or the volume.
//
// The agent makes the volume (Volume.Ensure) before its loop starts, or before it
// applies a configuration that asks for a volume: it formats, copies what is in
// /var/lib/kubelet into a directory of the volume that is renamed when it is
// complete, mounts, and records in /var/lib/loam/volume.json that the node has
// a volume.
//
// From then on loam-data-volume.service mounts it at boot (Volume.Await), even if
// the agent does not work; it makes no volume. The kubelet requires that unit,
// by a drop-in of the image. The unit waits for the disk as long as it is
// absent, so nothing is ever written beneath the mount point; everything else
// starts. A kubelet that runs when a volume is first claimed continues without
// it until the machine restarts (/run/loam/data-volume-later).
//
// At boot, an empty disk is taken only when no other disk has appeared for
// three seconds. A disk that appears late makes the agent start again, because
// the mount hides what the agent has written and watches. A disk that has grown
// is grown while mounted. A disk that disappears is an error in the status.
//
// On a node with an encrypted state the volume is a LUKS2 container, whose key is
// in the record, and which the recovery key of the state opens as well. Format
// writes into it without a mapping; the mark of the disk stays until its header is
// complete. Then only the container with the recorded UUID is the volume. A plain
// volume is refused where the node is new, and kept where the node had it.
//
// Gardener's var-lib-kubelet.mount is left out where Loam has the volume: it
// would wait for the disk before local-fs.target, with a file system of its
// own. Elsewhere it is started, and never restarted or stopped beneath pods.
package volume
