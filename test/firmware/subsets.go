package firmware

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// few is the number of changed sectors up to which all subsets are tried.
const few = 14

// Subsets calls do for what a disk may have, after a power cut, of the writes
// since its last flush: of few sectors all subsets, of many each one alone, all
// but each one, and as many random ones as told; and every prefix of the
// writes, if that is anything else.
func Subsets(writes []Written, random int, seed uint64, do func(kept Sectors)) {
	last := Last(writes)
	prefix := Sectors{}
	changed := slices.Sorted(maps.Keys(last))
	if len(changed) > few || len(changed) < len(writes) {
		do(Sectors{})
		for _, w := range writes {
			prefix[w.Sector] = w.Data
			do(maps.Clone(prefix))
		}
	}

	choose := func(keep func(i int) bool) {
		kept := Sectors{}
		for i, n := range changed {
			if keep(i) {
				kept[n] = last[n]
			}
		}
		do(kept)
	}

	if len(changed) <= few {
		for bits := range 1 << len(changed) {
			choose(func(i int) bool { return bits>>i&1 == 1 })
		}
		return
	}

	for one := range changed {
		choose(func(i int) bool { return i != one })
		choose(func(i int) bool { return i == one })
	}

	rng := rand.New(rand.NewPCG(seed, 7))
	for range random {
		choose(func(int) bool { return rng.Uint32()&1 == 1 })
	}
}

// extent is how many changed sectors in a row are data, of which no single one
// matters.
const extent = 16

// Coarse is Subsets with nothing, half or all of each extent of data, and no
// random ones.
func Coarse(writes []Written, do func(kept Sectors)) {
	last := Last(writes)
	var parts []Written // A part stands for all of its sectors, as its first.
	whole := map[int64][]int64{}
	for _, run := range runs(slices.Sorted(maps.Keys(last))) {
		for _, part := range [][]int64{run[:len(run)/2], run[len(run)/2:]} {
			if len(part) > 0 {
				parts = append(parts, Written{Sector: part[0]})
				whole[part[0]] = part
			}
		}
	}

	Subsets(parts, 0, 0, func(kept Sectors) {
		all := Sectors{}
		for first := range kept {
			for _, n := range whole[first] {
				all[n] = last[n]
			}
		}
		do(all)
	})
}

// runs are sectors one by one, but for extents of data.
func runs(sorted []int64) (all [][]int64) {
	for len(sorted) > 0 {
		n := 1
		for n < len(sorted) && sorted[n] == sorted[0]+int64(n) {
			n++
		}
		if n < extent {
			n = 1
		}

		all = append(all, sorted[:n])
		sorted = sorted[n:]
	}
	return all
}

// Last is what each sector has after the writes.
func Last(writes []Written) Sectors {
	last := Sectors{}
	for _, w := range writes {
		last[w.Sector] = w.Data
	}
	return last
}
