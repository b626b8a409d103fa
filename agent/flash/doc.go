// Package flash writes a disk image to a disk and reads it back. It writes only
// the parts that matter, in an order that a power cut cannot spoil.
//
//	image --Look--> Image: its extents --+
//	machine.yaml --> Overlay ------------+--Write--> mark, extents, last sector 0
//
// The extents to write follow from the image's own partition table, FAT and
// hash tree. machine.yaml is laid over the image before it is written. loamctl
// flash uses the package, and so does a node that installs itself; agent/volume
// says which disk that is and what is on it. A disk that is being written
// begins with a mark, which the first sector of the image replaces, written
// last.
package flash
