package fat

import (
	"bytes"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/loam-os/loam/partitions/device"
)

// written is a sector as a write left it.
type written struct {
	sector int64
	data   []byte
}

// recorder is a device that keeps what was written between two flushes, by
// sectors of 512 bytes.
type recorder struct {
	device.Device
	epochs [][]written
	now    []written
	skip   int // mutant: this flush, from 1 on, does nothing
	count  int
}

func (r *recorder) WriteAt(p []byte, off int64) (int, error) {
	old := make([]byte, sectorSize)
	for at := 0; at < len(p); at += sectorSize {
		if _, err := r.ReadAt(old, off+int64(at)); err != nil {
			return 0, err
		}
		if data := p[at : at+sectorSize]; !bytes.Equal(data, old) {
			r.now = append(r.now, written{(off + int64(at)) / sectorSize, bytes.Clone(data)})
		}
	}
	return r.Device.WriteAt(p, off)
}

func (r *recorder) Sync() error {
	r.count++
	if r.count != r.skip {
		r.epochs = append(r.epochs, r.now)
		r.now = nil
	}
	return nil
}

// state is a disk after a power cut: what was durable, and of the sectors
// written since then some.
type state struct {
	base *memory
	over map[int64][]byte
}

func (s *state) ReadAt(p []byte, off int64) (int, error) {
	n, err := s.base.ReadAt(p, off)
	first := off / sectorSize
	count := int64(len(p) / sectorSize)
	if int64(len(s.over)) < count {
		for sector, data := range s.over {
			if i := sector - first; i >= 0 && i < count {
				copy(p[i*sectorSize:], data)
			}
		}
		return n, err
	}

	for i := range count {
		if data := s.over[first+i]; data != nil {
			copy(p[i*sectorSize:], data)
		}
	}

	return n, err
}

func (s *state) WriteAt(p []byte, off int64) (int, error) {
	for at := 0; at < len(p); at += sectorSize {
		s.over[(off+int64(at))/sectorSize] = bytes.Clone(p[at : at+sectorSize])
	}
	return len(p), nil
}

func (s *state) Sync() error { return nil }

func (s *state) clone() *state { return &state{s.base, maps.Clone(s.over)} }

// apply is a state in which all of the epoch is durable.
func (s *state) apply(epoch []written) *state {
	c := s.clone()
	for _, w := range epoch {
		c.over[w.sector] = w.data
	}
	return c
}

// cuts are the states that a power cut in the epoch can leave. Each sector has
// what it had or what any of the writes left in it: all combinations if they
// are at most 4096, else every prefix of the writes, every sector alone and all
// but it, and some by chance.
func (s *state) cuts(epoch []written, random *rand.Rand, some int) iter.Seq[*state] {
	var order []int64
	versions := map[int64][][]byte{}
	combinations := 1

	for _, w := range epoch {
		if versions[w.sector] == nil {
			order = append(order, w.sector)
			versions[w.sector] = [][]byte{nil}
		}
		versions[w.sector] = append(versions[w.sector], w.data)
	}

	for _, v := range versions {
		combinations = min(combinations*len(v), 1<<20)
	}

	choose := func(pick func(i, n int) int) *state {
		c := s.clone()
		for i, sector := range order {
			if v := versions[sector]; v != nil {
				if data := v[pick(i, len(v))]; data != nil {
					c.over[sector] = data
				}
			}
		}
		return c
	}

	return func(yield func(*state) bool) {
		if combinations <= 4096 {
			for k := range combinations {
				rest := k
				if !yield(choose(func(_, n int) int { pick := rest % n; rest /= n; return pick })) {
					return
				}
			}
			return
		}

		for k := range len(epoch) {
			if !yield(s.apply(epoch[:k])) {
				return
			}
		}

		for k := range order {
			alone := choose(func(i, n int) int { return map[bool]int{true: n - 1}[i == k] })
			without := choose(func(i, n int) int { return map[bool]int{false: n - 1}[i == k] })
			if !yield(alone) || !yield(without) {
				return
			}
		}

		for range some {
			if !yield(choose(func(_, n int) int { return random.IntN(n) })) {
				return
			}
		}
	}
}

// flatten is a memory with the state's content.
func (s *state) flatten() *memory {
	m := s.base.clone()
	for _, sector := range slices.Sorted(maps.Keys(s.over)) {
		if _, err := m.WriteAt(s.over[sector], sector*sectorSize); err != nil {
			panic(err) // it was read from there
		}
	}
	return m
}
