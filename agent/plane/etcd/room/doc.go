// Package room keeps room on the disk for etcd, so that it is not the first to fail when
// pods, images or logs fill the file system.
//
//	directory of etcd ---Observe---> Usage ---Next---> []Reservation ---Apply---> its files
//
// etcd ends at the first write that the file system has no block for. Its database is a
// sparse file, so on a full file system that is after some small writes. The room is
// therefore reserved within etcd's own files, as blocks beyond what they have
// (fallocate(2), FALLOC_FL_KEEP_SIZE): nothing else can take it, whatever is faster, and
// etcd needs to know nothing of it. A file that is given up when the disk is full, as
// others have it, would go to the program that fills the disk.
//
// The log has room for 64 MB by itself: etcd allocates each segment of it, and the next
// one. Its last write goes beyond the end of the segment, and needs a block, too. So there
// are at least 64 MB of writes, which is an hour of an idle cluster, in which the kubelet
// deletes images and evicts pods. After that etcd ends, and comes back by itself when there
// is room: without what was reserved, as it truncates its log when it starts, until the
// next look.
package room
