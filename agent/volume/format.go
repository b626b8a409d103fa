package volume

import (
	"encoding/binary"
	"fmt"
	"io"
	"strconv"

	"github.com/loam-os/loam/partitions/sparse"
)

// Mkfs returns the command that makes the file system, with project quota, in a
// sparse file as large as the disk. A hole in that file need not be zero on the
// disk. So the kernel zeroes the inode tables in the background, and checksums
// that are keyed by the new UUID protect the journal of ext4 from old data.
func Mkfs(fileSystem, label, file string, size int64, sectorSize int) []string {
	if fileSystem == "xfs" {
		command := []string{
			"mkfs.xfs", "-q", "-f", "-K", "-s", "size=" + strconv.Itoa(sectorSize), "-L", label,
		}
		if size/xfsLogShare > maxXFSLog {
			command = append(command, "-l", "size="+strconv.Itoa(maxXFSLog))
		}
		return append(command, file)
	}
	return []string{
		"mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-m", "0", "-L", label, "-O",
		"quota,project",
		"-E", "quotatype=prjquota,nodiscard,lazy_itable_init=1,lazy_journal_init=1", file,
	}
}

// mkfs.xfs makes a log of this part of the disk, up to 2 GiB, and fills it with
// zeros. The file is in memory, so the log of a larger disk is no larger than
// the log of a disk of 512 GiB.
const (
	xfsLogShare = 2048
	maxXFSLog   = 256 << 20
)

// Format copies a file system from image to target. data are the parts of image
// that are not holes.
//
// The mark of its purpose is written first. The first sector, which replaces it, is
// written last and alone. So a power cut anywhere leaves a disk that is empty,
// or has the mark, or has the volume.
func Format(
	target Writable, mark string, image io.ReaderAt, data []sparse.Extent, sectorSize int,
) error {
	first := make([]byte, sectorSize)
	if _, err := image.ReadAt(first, 0); err != nil {
		return fmt.Errorf("read new file system: %w", err)
	}

	start := make([]byte, sectorSize)
	copy(start, mark)
	if err := writeSynced(target, start); err != nil {
		return fmt.Errorf("mark disk: %w", err)
	}

	if log, ok := xfsLog(first); ok {
		if err := target.Zero(log.Start, log.End-log.Start); err != nil {
			return fmt.Errorf("zero log: %w", err)
		}
	}

	for _, span := range data {
		err := copySpan(target, image,
			sparse.Extent{Start: max(span.Start, int64(sectorSize)), End: span.End})
		if err != nil {
			return fmt.Errorf("write file system: %w", err)
		}
	}
	if err := target.Sync(); err != nil {
		return fmt.Errorf("write file system: %w", err)
	}

	if err := writeSynced(target, first); err != nil {
		return fmt.Errorf("finish file system: %w", err)
	}

	return nil
}

// writeSynced writes the first sector and makes it durable.
func writeSynced(target Writable, sector []byte) error {
	if _, err := target.WriteAt(sector, 0); err != nil {
		return err
	}
	return target.Sync()
}

func copySpan(target io.WriterAt, image io.ReaderAt, s sparse.Extent) error {
	buffer := make([]byte, min(mib, max(0, s.End-s.Start)))
	for at := s.Start; at < s.End; at += int64(len(buffer)) {
		buffer = buffer[:min(int64(len(buffer)), s.End-at)]
		if _, err := image.ReadAt(buffer, at); err != nil {
			return err
		}
		if _, err := target.WriteAt(buffer, at); err != nil {
			return err
		}
	}
	return nil
}

// xfsLog returns the extent of the log, from the superblock of XFS in sector
// (xfs_sb, big-endian). Blocks of an old log there would look newer than the
// zeros that mkfs.xfs leaves.
func xfsLog(sector []byte) (sparse.Extent, bool) {
	be := binary.BigEndian
	if string(sector[:4]) != "XFSB" {
		return sparse.Extent{}, false
	}

	block := int64(be.Uint32(sector[4:]))
	start := be.Uint64(sector[48:])
	group := int64(be.Uint32(sector[84:]))
	shift := sector[124]
	at := (int64(start>>shift)*group + int64(start&(1<<shift-1))) * block

	return sparse.Extent{Start: at, End: at + int64(be.Uint32(sector[96:]))*block}, start != 0
}
