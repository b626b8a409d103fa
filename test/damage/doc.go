// Package damage damages the state partition of a machine on image files, and
// has the machine repair it, with e2fsck as the judge.
//
// A [Partition] is a file system like the state partition's, with files in it.
// A [Damage] overwrites parts of it: superblocks, descriptors, bitmaps, the
// journal, inode tables, directories. A [Machine] starts again and again as
// /init and agent/repair decide, until it runs with its state or stays in
// memory. Every damage has a seed.
package damage
