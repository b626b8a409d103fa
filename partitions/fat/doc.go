// Package fat edits a FAT32 file system (Microsoft's "FAT: General Overview of
// On-Disk Format", 1.03) in place, so that a power cut leaves the old or the
// new and nothing between: it is for the EFI system partition of a running
// node, which is not mounted.
//
//	Open --> FS --Stage--> Chain: data and FAT are durable, nothing names them
//	                          |
//	                        Link --> entry: one sector
//	Remove, or a power cut --> clusters without an entry --Reclaim--> free
//
// It holds on disks that write a sector of 512 bytes completely or not at all,
// and keep any part of the writes since the last flush, because:
//   - data and the FAT's chain are durable before a directory entry refers to
//     them, and the entry is durably gone before its chain is freed: a cut
//     leaves clusters that nothing refers to, which Reclaim frees;
//   - an entry with all parts of its long name lies in one sector, so that it
//     appears, is renamed and goes by one write of one sector;
//   - a directory never grows.
//
// Firmware reads FAT 1 and no other. So does this package, until Reclaim makes
// both equal.
//
// The agent does not mount the ESP to write to it, because Linux renames on FAT
// in several sectors, in an order of its own.
package fat
