// Package qcow2 writes disk images in QEMU's qcow2 format, version 3 (QEMU's
// docs/interop/qcow2.txt): clusters of 64 KiB, no compression, no backing file,
// no snapshots. Clusters that are zero take no room.
//
//	sparse file --dataClusters--> clusters --newLayout--> layout --> metadata
//	                                 |                                  |
//	                                 +----------content---------------> image
//
// [Reader] goes the other way: it is the disk that an image of QEMU has.
package qcow2

import "fmt"

const (
	clusterBits = 16
	clusterSize = 1 << clusterBits
	// l2Entries is the number of clusters that one L2 table maps: 512 MiB of
	// disk.
	l2Entries = clusterSize / 8
	// refcounts is the number of 16-bit counts in one refcount block: 2 GiB of
	// file.
	refcounts = clusterSize / 2
	// maxSize bounds the disk, 16 TiB: the tables stay small.
	maxSize = 1 << 44
)

// layout is where everything lies in the file, in clusters: header, refcount
// table, refcount blocks, L1 table, L2 tables, data.
type layout struct {
	size         int64   // of the disk, bytes
	data         []int64 // the disk's clusters that are not zero, ascending
	l2           []int64 // the L1 entries that have an L2 table, ascending
	l1Entries    int64
	l1Clusters   int64
	tableCluster int64 // refcount table: always cluster 1
	tableSize    int64
	blocks       int64 // refcount blocks
}

// newLayout decides the layout for a disk of size bytes of which the clusters
// data are not zero.
func newLayout(size int64, data []int64) (layout, error) {
	if size <= 0 || size%512 != 0 || size > maxSize {
		return layout{}, fmt.Errorf("size %d: want a multiple of 512, at most %d",
			size, int64(maxSize))
	}

	l := layout{size: size, data: data, tableCluster: 1}
	for _, c := range data {
		if i := c / l2Entries; len(l.l2) == 0 || l.l2[len(l.l2)-1] != i {
			l.l2 = append(l.l2, i)
		}
	}

	l.l1Entries = divUp(divUp(size, clusterSize), l2Entries)
	l.l1Clusters = divUp(l.l1Entries*8, clusterSize)

	for { // refcounts count their own clusters too: more blocks until they are enough
		l.tableSize = divUp(l.blocks*8, clusterSize)
		if divUp(l.clusters(), refcounts) <= l.blocks {
			return l, nil
		}
		l.blocks++
	}
}

// First clusters of the parts of the file.
func (l layout) blocksAt() int64 { return l.tableCluster + l.tableSize }
func (l layout) l1At() int64     { return l.blocksAt() + l.blocks }
func (l layout) l2At() int64     { return l.l1At() + l.l1Clusters }
func (l layout) dataAt() int64   { return l.l2At() + int64(len(l.l2)) }

// clusters is the length of the file.
func (l layout) clusters() int64 { return l.dataAt() + int64(len(l.data)) }

func divUp(n, by int64) int64 { return (n + by - 1) / by }
