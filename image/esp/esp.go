// Package esp writes and reads the EFI system partition: a FAT32 file system
// (Microsoft's "FAT: General Overview of On-Disk Format", 1.03) laid out for
// updates that survive a power cut on EDK2 firmware.
//
// Firmware that counts a boot try renames a UKI: it appends a new directory
// entry and flushes once. So here
//   - clusters are 8 KiB, and FATs and data start at multiples of 4 KiB, as
//     disks write them at once;
//   - \EFI\Linux has 64 KiB of zeroed clusters from the start, so that no
//     rename has to change the FAT for years;
//   - two empty files after its . and .. make each entry of four slots (see
//     package bootentry) start at a multiple of four slots, so that none
//     crosses a 512-byte sector.
//
// It has its own writer because go-diskfs 1.9 chooses the cluster size by the
// size of the disk and cannot extend a directory ahead of time; reading, to
// check what was written, is go-diskfs's.
//
// The names in \EFI\Linux have exactly four directory slots for the same
// reason, so that a torn rename of the try counter cannot lose an entry. These
// rules were measured against EDK2.
//
//	[]File --newTree--> tree of nodes --geometry.place--> FAT, first clusters
//	                                                        |
//	           disk <-- boot sectors, FATs, directories, content, no zeros
package esp

import (
	"bytes"
	"fmt"
	"io"
)

// File is a file of the ESP. Its directories are made as needed.
type File struct {
	Path string // "EFI/BOOT/BOOTX64.EFI": ASCII, slashes, relative to the root of the file system
	Data []byte

	// Content is the content in place of Data, if set: of a file that is too
	// large for memory.
	Content *io.SectionReader

	// ReadOnly is the attribute: firmware does not rename a file that has it.
	ReadOnly bool
}

// content reads the content from its start.
func (f File) content() *io.SectionReader {
	if f.Content != nil {
		return io.NewSectionReader(f.Content, 0, f.Content.Size())
	}
	return io.NewSectionReader(bytes.NewReader(f.Data), 0, int64(len(f.Data)))
}

const (
	clusterSize = 8 << 10
	// reserved sectors before the first FAT.
	reserved = 32
	// fatAlign is the sectors that a FAT's size is a multiple of.
	fatAlign = 8
	// minClusters makes a file system FAT32; with fewer it would be read as
	// FAT16.
	minClusters = 65525
	// maxSize in bytes keeps all sector and cluster numbers within 32 bits.
	maxSize = 1 << 40
)

// Write writes a file system of size bytes with the files to w, and always the
// directory of boot entries with its fillers and its chain. It skips zeros, as
// w must read as zero everywhere. sectorSize is the disk's, 512 or 4096
// bytes: Linux mounts no other. Equal inputs give equal bytes: all times are
// 1980-01-01, and nothing depends on the order of files.
func Write(w io.WriterAt, size int64, sectorSize int, volumeID uint32, files []File) error {
	g, err := newGeometry(size, sectorSize)
	if err != nil {
		return fmt.Errorf("write ESP: %w", err)
	}

	root, err := newTree(files)
	if err != nil {
		return fmt.Errorf("write ESP: %w", err)
	}

	fat, err := g.place(root)
	if err != nil {
		return fmt.Errorf("write ESP: %w", err)
	}

	s := sparse{w: w}
	s.write(0, g.bootSectors(volumeID, fat))

	for i := range int64(2) {
		s.write(g.fat(i), encodeFAT(fat))
	}

	root.walk(func(n *node) {
		switch {
		case n.first == 0:
		case n.dir:
			s.write(g.offset(n.first), n.directory())
		default:
			s.copy(g.offset(n.first), n.content)
		}
	})

	if s.err != nil {
		return fmt.Errorf("write ESP: %w", s.err)
	}

	return nil
}

// sparse skips zeros, and keeps the first error.
type sparse struct {
	w   io.WriterAt
	err error
}

// copy writes all of r, a piece at a time.
func (s *sparse) copy(off int64, r *io.SectionReader) {
	piece := make([]byte, min(128*clusterSize, r.Size()))
	for at := int64(0); at < r.Size() && s.err == nil; at += int64(len(piece)) {
		piece = piece[:min(int64(len(piece)), r.Size()-at)]
		if _, err := io.ReadFull(r, piece); err != nil {
			s.err = fmt.Errorf("content at byte %d: %w", at, err)
			return
		}
		s.write(off+at, piece)
	}
}

func (s *sparse) write(off int64, data []byte) {
	for len(data) > 0 && s.err == nil {
		block := data[:min(len(data), clusterSize)]
		for _, b := range block {
			if b != 0 {
				_, s.err = s.w.WriteAt(block, off)
				break
			}
		}
		off += int64(len(block))
		data = data[len(block):]
	}
}
