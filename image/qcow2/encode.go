package qcow2

import "encoding/binary"

const (
	magic = "QFI\xfb"
	// headerSize of version 3, in bytes.
	headerSize = 104
	// copied marks a table entry whose cluster has a refcount of exactly one.
	copied = 1 << 63
)

// metadata encodes all that lies before the data.
func (l layout) metadata() []byte {
	b := make([]byte, l.dataAt()*clusterSize)
	be := binary.BigEndian
	l.header(b)

	table := b[l.tableCluster*clusterSize:]
	for i := range l.blocks {
		be.PutUint64(table[8*i:], uint64(l.blocksAt()+i)*clusterSize)
	}

	counts := b[l.blocksAt()*clusterSize:]
	for i := range l.clusters() {
		be.PutUint16(counts[2*i:], 1)
	}

	l1 := b[l.l1At()*clusterSize:]
	for i, entry := range l.l2 {
		be.PutUint64(l1[8*entry:], uint64(l.l2At()+int64(i))*clusterSize|copied)
	}

	table2 := int64(-1) // counts the L2 tables while data ascends
	for i, c := range l.data {
		if i == 0 || c/l2Entries != l.data[i-1]/l2Entries {
			table2++
		}
		at := (l.l2At()+table2)*clusterSize + c%l2Entries*8
		be.PutUint64(b[at:], uint64(l.dataAt()+int64(i))*clusterSize|copied)
	}

	return b
}

// header encodes the header; the header extensions end where they would begin.
func (l layout) header(b []byte) {
	be := binary.BigEndian
	copy(b, magic)
	be.PutUint32(b[4:], 3) // version
	be.PutUint32(b[20:], clusterBits)
	be.PutUint64(b[24:], uint64(l.size))
	be.PutUint32(b[36:], uint32(l.l1Entries))
	be.PutUint64(b[40:], uint64(l.l1At())*clusterSize)
	be.PutUint64(b[48:], uint64(l.tableCluster)*clusterSize)
	be.PutUint32(b[56:], uint32(l.tableSize))
	be.PutUint32(b[96:], 4) // refcounts of 1<<4 bits
	be.PutUint32(b[100:], headerSize)
}
