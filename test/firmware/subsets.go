package firmware

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// few changed sectors are those of which all subsets are tried.
const few = 10

// Subsets calls do for what a disk may have, after a power cut, of the writes since its last flush: of few sectors all subsets, of many each one
// alone, all but each one, and as many random ones as told; and every prefix of the writes, if that is anything else.
func Subsets(writes []Written, random int, seed uint64, do func(kept Sectors)) {
	last, prefix := Sectors{}, Sectors{}
	for _, w := range writes {
		last[w.Sector] = w.Data
	}
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
