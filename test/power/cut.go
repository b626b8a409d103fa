package power

import (
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
)

// Loss says what of the unsynced a power cut takes.
type Loss struct {
	Entries Part
	Content Part
	// Seed is the seed of Random.
	Seed uint64
}

// Part is how much of what was not synced a disk has.
type Part string

const (
	All    Part = "all"
	None   Part = "none"
	Half   Part = "half"   // of content: it ends in the middle
	Zeros  Part = "zeros"  // of content: its size is there, its bytes are not
	Random Part = "random" // each by itself
)

func (l Loss) String() string {
	return fmt.Sprintf("entries %s, content %s, seed %d", l.Entries, l.Content, l.Seed)
}

// Cut is the disk that a power cut leaves of d: all of it is durable.
// Directories called lost, which were never on a disk, are empty.
func (d *Disk) Cut(l Loss, lost ...string) *Disk {
	random := rand.New(rand.NewPCG(l.Seed, 0))
	entries := map[*node]map[string]*node{}
	for _, c := range d.persisted(l, random) {
		if entries[c.dir] == nil {
			entries[c.dir] = maps.Clone(c.dir.durable)
		}
		put(entries[c.dir], c.set)
	}

	left := &Disk{}
	made := map[*node]*node{}
	var leave func(n *node) *node
	leave = func(n *node) *node {
		if made[n] != nil {
			return made[n]
		}

		m := &node{mode: n.mode, target: n.target}
		made[n] = m

		if n.mode.IsRegular() {
			m.data, m.mode = n.left(l.Content, random)
			m.synced = m.data
			m.syncedMode = m.mode
		}

		if !n.mode.IsDir() {
			return m
		}

		m.entries = map[string]*node{}
		from, changed := entries[n]
		if !changed {
			from = n.durable
		}

		for _, name := range slices.Sorted(maps.Keys(from)) {
			m.entries[name] = leave(from[name])
		}

		m.durable = maps.Clone(m.entries)
		return m
	}

	left.root = leave(d.root)
	for _, name := range lost {
		left.root.entries[name] = newDir()
		left.root.durable[name] = left.root.entries[name]
	}

	return left
}

// persisted returns the pending changes that are on the disk, in order. A
// change implies the earlier changes of the same names.
func (d *Disk) persisted(l Loss, random *rand.Rand) []change {
	likely := random.Float64()
	type entry struct {
		dir  *node
		name string
	}

	needed := map[entry]bool{}
	var kept []change
	for _, c := range slices.Backward(d.pending) {
		keep := l.Entries == All || (l.Entries == Random && random.Float64() < likely)
		for name := range c.set {
			keep = keep || needed[entry{c.dir, name}]
		}
		if !keep {
			continue
		}

		kept = append(kept, c)
		for name := range c.set {
			needed[entry{c.dir, name}] = true
		}
	}

	slices.Reverse(kept)
	return kept
}

// left is the content and mode of a file after a cut.
func (n *node) left(part Part, random *rand.Rand) ([]byte, fs.FileMode) {
	if n.isDurable() {
		return n.data, n.mode
	}

	mode := n.mode
	if part == Random {
		part = []Part{All, None, Half, Zeros}[random.IntN(4)]
		mode = []fs.FileMode{n.mode, n.syncedMode}[random.IntN(2)]
	}

	known := min(len(n.synced), len(n.data)) // An append keeps what was there.
	torn := slices.Clone(n.data)
	switch part {
	case All:
		return n.data, n.mode
	case None:
		return n.synced, n.syncedMode
	case Half:
		return torn[:known+(len(torn)-known)/2], mode
	}

	clear(torn[known:])
	return torn, mode
}
