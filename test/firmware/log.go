package firmware

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Flags of an entry of a log of dm-log-writes, which QEMU's blklogwrites
// writes.
const (
	logMagic   = 0x6a736677736872
	logFlush   = 1
	logDiscard = 4
)

// Request is what a machine asked of its disk.
type Request struct {
	Sector int64
	Data   []byte
	// Flush comes before the data of its own request.
	Flush bool
}

// ReadLog takes a log apart: a sector that says how many entries there are,
// then for each a sector of four numbers, and its data.
func ReadLog(b []byte) (all []Request, err error) {
	le := binary.LittleEndian
	if len(b) == 0 {
		return nil, nil // QEMU begins it with the first request.
	}
	if len(b) < SectorSize || le.Uint64(b) != logMagic || le.Uint32(b[24:]) != SectorSize {
		return nil, errors.New("no log of sectors of 512 bytes")
	}

	entries := le.Uint64(b[16:])
	for i := range entries {
		b = b[SectorSize:]
		if len(b) < SectorSize {
			return nil, fmt.Errorf("log ends at entry %d of %d", i, entries)
		}

		r := Request{Sector: int64(le.Uint64(b)), Flush: le.Uint64(b[16:])&logFlush != 0}
		size := le.Uint64(b[8:]) * SectorSize
		switch {
		case le.Uint64(b[16:])&logDiscard != 0:
			return nil, fmt.Errorf("entry %d: discards", i)
		case uint64(len(b)) < SectorSize+size:
			return nil, fmt.Errorf("log ends in entry %d of %d", i, entries)
		}

		r.Data = b[SectorSize:][:size]
		b = b[size:]
		all = append(all, r)
	}

	if len(b) != SectorSize {
		return nil, fmt.Errorf("%d bytes after the last flush", len(b)-SectorSize)
	}

	return all, nil
}
