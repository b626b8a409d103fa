// Package install puts the system on the disk that machine.yaml claims for it,
// from a node that runs from memory.
//
//	Observe --> Facts --+
//	                    +--Decide--> Choice --> Unpack --> Open --> Write
//	Claim --------------+                                 (looks again)
//
// The rules are those in agent/volume: a disk is written to only if it is not
// in use, nothing was found on it, and the claim means it and no other. The
// operator may allow the content of a disk to be overwritten, by its serial
// number. A disk that has a system of Loam is never written to again.
//
// The steps are: [Observe] the disks, [Decide] which one to use, [Unpack] the
// image, [Open] the disk, and [Write]. Decide asks volume.Decide about the
// disks that count as empty to it: disks that begin with the mark of
// agent/flash and have nothing else at their edges, and the disk that may be
// wiped. A disk with slots that hold a system is preferred to all others, and
// is only restarted into (firmware/loadoption). The packed image is unpacked to
// a sparse file in memory, and nothing is written before its digest is right. A
// disk is inspected once more after it was opened exclusively. A test cuts the
// power at every point, on an empty disk and on a disk that is wiped, and
// installs again.
package install
