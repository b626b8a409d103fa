package fat

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"

	"github.com/loam-os/loam/hint"
)

// Values of a FAT's entries, which are 28 bits; the upper four of the 32 are
// kept as they are.
const (
	mask       = 0x0fffffff
	bad        = 0x0ffffff7
	endOfChain = 0x0fffffff // any value above bad
)

// table is a FAT: for each cluster the next of its chain, 0 if it is free.
type table []byte

func (t table) next(c uint32) uint32 { return binary.LittleEndian.Uint32(t[4*c:]) & mask }

func (t table) set(c, next uint32) {
	binary.LittleEndian.PutUint32(t[4*c:], binary.LittleEndian.Uint32(t[4*c:])&^mask|next)
}

// used yields the clusters up to last that are not free, with what the FAT says
// of them. Most sectors of most FATs are zeros.
func (t table) used(last uint32) iter.Seq2[uint32, uint32] {
	return func(yield func(c, next uint32) bool) {
		for at := 0; at < len(t); at += sectorSize {
			sector := (*[sectorSize]byte)(t[at:])
			if *sector == ([sectorSize]byte{}) {
				continue
			}
			for i := 0; i < sectorSize; i += 4 {
				next := binary.LittleEndian.Uint32(sector[i:]) & mask
				c := uint32(at+i) / 4
				if next != 0 && c >= 2 && c <= last && !yield(c, next) {
					return
				}
			}
		}
	}
}

// follow is the chain from first to its end. Of a broken one it is what comes
// before the break.
func (g geometry) follow(t table, first uint32) ([]uint32, error) {
	if !g.valid(first) {
		return nil, fmt.Errorf("first cluster %d: want 2 to %d", first, g.last())
	}

	var chain []uint32
	for c := first; ; {
		next := t.next(c)
		switch {
		case next == 0 || next == bad:
			return chain, fmt.Errorf("cluster %d: the chain reaches it, but it is %s",
				c, map[bool]string{true: "free", false: "marked bad"}[next == 0])
		case len(chain) == int(g.clusters):
			return chain, fmt.Errorf("cluster %d: the chain is a loop", c)
		}

		chain = append(chain, c)
		if next > bad {
			return chain, nil
		}
		if !g.valid(next) {
			return chain, fmt.Errorf("cluster %d: its next is %d, want 2 to %d", c, next, g.last())
		}

		c = next
	}
}

// fileChain is the chain of a file, which has the clusters for its size.
func (g geometry) fileChain(t table, first uint32, size int64) ([]uint32, error) {
	if first == 0 && size == 0 {
		return nil, nil
	}
	chain, err := g.follow(t, first)
	if n := g.need(size); err == nil && len(chain) < n {
		err = fmt.Errorf("cluster %d: the chain ends after %d of %d clusters",
			chain[len(chain)-1], len(chain), n)
	}
	return chain, err
}

// run is a part of a slice: n of its elements from at on.
type run struct{ at, n int }

// runs are the parts of a chain whose clusters follow each other on the disk.
func runs(chain []uint32) (list []run) {
	for i, c := range chain {
		if i > 0 && chain[i-1]+1 == c {
			list[len(list)-1].n++
		} else {
			list = append(list, run{i, 1})
		}
	}
	return list
}

// allocate finds n free clusters, all in a row if there are, else the first
// ones.
func (f *fats) allocate(n int) ([]uint32, error) {
	if f.second != nil {
		return nil, hint.With(errors.New("the FATs differ"), "Reclaim makes them equal")
	}

	var free, row []uint32
	for c := uint32(2); c <= f.last() && len(row) < n; c++ {
		if f.fat.next(c) != 0 {
			row = row[:0]
			continue
		}
		row = append(row, c)
		if len(free) < n {
			free = append(free, c)
		}
	}
	if len(row) == n {
		return row, nil
	}

	if len(free) < n {
		return nil, fmt.Errorf("%d clusters of %d bytes: %d are free", n, f.clusterSize, len(free))
	}

	return free, nil
}

// Used yields what of the partition holds something, as offset and length in
// bytes: all before the first cluster, then clusters in use.
func (f *fats) Used() iter.Seq2[int64, int64] {
	return func(yield func(off, n int64) bool) {
		off := int64(0)
		end := f.data
		for c := range f.fat.used(f.last()) {
			at := f.data + int64(c-2)*f.clusterSize
			if at != end {
				if !yield(off, end-off) {
					return
				}
				off = at
			}
			end = at + f.clusterSize
		}

		yield(off, end-off)
	}
}
