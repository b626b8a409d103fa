package qcow2

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/loam-os/loam/partitions/sparse"
)

// Write writes the first size bytes of src, a sparse file, as a qcow2 image to
// dst, an empty file. Holes are skipped without being read, zero clusters after
// reading. Equal contents give equal bytes, wherever src has holes.
func Write(dst io.WriterAt, src *os.File, size int64) error {
	info, err := src.Stat()
	if err != nil {
		return fmt.Errorf("write qcow2: %w", err)
	}

	if info.Size() < size {
		return fmt.Errorf("write qcow2: %s has %d bytes, the disk has %d",
			src.Name(), info.Size(), size)
	}

	data, err := dataClusters(src, size)
	if err != nil {
		return fmt.Errorf("write qcow2: read %s: %w", src.Name(), err)
	}

	l, err := newLayout(size, data)
	if err != nil {
		return fmt.Errorf("write qcow2: %w", err)
	}
	if _, err := dst.WriteAt(l.metadata(), 0); err != nil {
		return fmt.Errorf("write qcow2: metadata: %w", err)
	}

	buf := make([]byte, clusterSize)
	for i, c := range data {
		if err := readCluster(src, c, size, buf); err != nil {
			return fmt.Errorf("write qcow2: read %s: %w", src.Name(), err)
		}
		if _, err := dst.WriteAt(buf, (l.dataAt()+int64(i))*clusterSize); err != nil {
			return fmt.Errorf("write qcow2: cluster %d: %w", c, err)
		}
	}

	return nil
}

// dataClusters lists the clusters of src that are not zero.
func dataClusters(src *os.File, size int64) (clusters []int64, err error) {
	buf := make([]byte, clusterSize)
	zero := make([]byte, clusterSize)

	data, err := sparse.Data(src, size)
	if err != nil {
		return nil, err
	}

	next := int64(0)
	for _, e := range data {
		for next = max(next, e.Start/clusterSize); next*clusterSize < e.End; next++ {
			if err := readCluster(src, next, size, buf); err != nil {
				return nil, err
			}
			if !bytes.Equal(buf, zero) {
				clusters = append(clusters, next)
			}
		}
	}

	return clusters, nil
}

// readCluster fills buf with a cluster of src; what lies beyond size is zero.
func readCluster(src *os.File, cluster, size int64, buf []byte) error {
	off := cluster * clusterSize
	n := min(clusterSize, size-off)
	clear(buf[n:])
	if got, err := src.ReadAt(buf[:n], off); int64(got) < n {
		return fmt.Errorf("byte %d: %w", off, err)
	}

	return nil
}
