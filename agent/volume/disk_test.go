package volume

import (
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"
)

// inMemory is a disk in memory. It has only those sectors that were
// written.
type inMemory struct {
	size    int64
	sectors map[int64]*[512]byte
	// broken is a sector that cannot be read; -1 if none.
	broken int64
	// outside counts reads beyond the disk.
	outside int
}

func newSparse(size int64) *inMemory {
	return &inMemory{size: size, sectors: map[int64]*[512]byte{}, broken: -1}
}

var errBroken = errors.New("input/output error")

func (s *inMemory) ReadAt(p []byte, off int64) (int, error) {
	end := off + int64(len(p))
	if off < 0 || end > s.size {
		s.outside++
		return 0, io.EOF
	}

	if s.broken >= off/512 && s.broken*512 < end {
		return 0, errBroken
	}

	clear(p)
	if int64(len(p)/512) > int64(len(s.sectors)) {
		// Fewer sectors than the read is long: look at those.
		for n, b := range s.sectors {
			if at := n * 512; at < end && at+512 > off {
				copy(p[max(0, at-off):], b[max(0, off-at):])
			}
		}
		return len(p), nil
	}

	for n := off / 512; n*512 < end; n++ {
		if b := s.sectors[n]; b != nil {
			copy(p[max(0, n*512-off):], b[max(0, off-n*512):])
		}
	}

	return len(p), nil
}

// write puts what of b is on the disk there.
func (s *inMemory) write(off int64, b []byte) {
	for i, v := range b {
		at := off + int64(i)
		if at < 0 || at >= s.size {
			continue
		}
		if s.sectors[at/512] == nil {
			s.sectors[at/512] = new([512]byte)
		}
		s.sectors[at/512][at%512] = v
	}
}

// fact is a line of testdata: a signature to find, and its place.
type fact struct {
	name          string
	offset, align int64
	bytes         []piece
}

type piece struct {
	rel  int64
	data []byte
}

func (f fact) at(size int64) int64 {
	if f.offset >= 0 {
		return f.offset
	}
	return size - size%max(f.align, 1) + f.offset
}

// put writes the signature to a disk; ok is false if the disk has no room for
// it.
func (f fact) put(s *inMemory) (ok bool) {
	at := f.at(s.size)
	if at < 0 || at+int64(len(f.bytes[0].data)) > s.size {
		return false
	}
	for _, p := range f.bytes {
		s.write(at+p.rel, p.data)
	}
	return true
}

// weak reports whether the magic is too short to identify the format. It must
// be noticed all the same.
func (f fact) weak() bool { return len(f.bytes) == 1 && len(f.bytes[0].data) < 4 }

func facts(t testing.TB, files ...string) []fact {
	t.Helper()
	var out []fact
	for _, file := range files {
		text, err := os.ReadFile("testdata/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 2 && fields[0] != "#" {
				out = append(out, parseFact(t, fields))
			}
		}
	}
	return out
}

func parseFact(t testing.TB, fields []string) fact {
	t.Helper()
	number := func(text string) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}

	f := fact{name: fields[0]}
	offset, align, aligned := strings.Cut(fields[1], "/")
	f.offset = number(offset)
	if aligned {
		f.align = number(align)
	}

	for _, text := range fields[2:] {
		rel, digits, more := strings.Cut(text, ":")
		p := piece{}
		if !more {
			digits = rel
		} else {
			p.rel = number(rel)
		}

		var err error
		p.data, err = hex.DecodeString(digits)
		if err != nil {
			t.Fatalf("%v: %v", fields, err)
		}

		f.bytes = append(f.bytes, p)
	}

	return f
}
