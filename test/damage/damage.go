package damage

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/loam-os/loam/partitions/device"
)

// Damage overwrites a part of a partition.
type Damage struct {
	Seed uint64
	Part Part
	// Way is how the blocks are overwritten.
	Way Way
	// Blocks are their numbers.
	Blocks []int64
}

// Way is a way to damage blocks.
type Way string

// The ways.
const (
	Bits    Way = "flipped bits"
	Zeros   Way = "zeros"
	Garbage Way = "garbage"
	// Torn overwrites single sectors, as a power cut may.
	Torn Way = "torn sectors"
	// Misplaced overwrites a block with another of the same part.
	Misplaced Way = "another block"
)

// New returns the damage of a seed.
func New(p *Partition, seed uint64) Damage {
	r := rand.New(rand.NewPCG(seed, 19))
	all := []Part{Superblocks, Descriptors, Bitmaps, Journal, Inodes, Directories}
	d := Damage{
		Seed: seed,
		Part: all[r.IntN(len(all))],
		Way:  []Way{Bits, Zeros, Garbage, Torn, Misplaced}[r.IntN(5)],
	}

	blocks := slices.Clone(p.Parts[d.Part])
	r.Shuffle(len(blocks), func(i, j int) { blocks[i], blocks[j] = blocks[j], blocks[i] })
	count := 1 + r.IntN(4)
	if r.IntN(8) == 0 {
		count = len(blocks)
	}
	d.Blocks = blocks[:min(count, len(blocks))]
	// What the machine reads first.
	if first := p.Parts[d.Part][0]; r.IntN(2) == 0 && !slices.Contains(d.Blocks, first) {
		d.Blocks[0] = first
	}
	return d
}

// String names the damage.
func (d Damage) String() string {
	return fmt.Sprintf("seed %d: %s in blocks %d of %s", d.Seed, d.Way, d.Blocks, d.Part)
}

// DoFile damages the partition in a file.
func (d Damage) DoFile(p *Partition, name string) error {
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(d.Do(p, f), f.Close())
}

// Do damages the partition.
func (d Damage) Do(p *Partition, f device.Device) error {
	r := rand.New(rand.NewPCG(d.Seed, 20))
	for _, at := range d.Blocks {
		block := make([]byte, blockSize)
		if _, err := f.ReadAt(block, at*blockSize); err != nil {
			return err
		}
		from := p.Parts[d.Part][r.IntN(len(p.Parts[d.Part]))]
		if d.Way == Misplaced {
			if _, err := f.ReadAt(block, from*blockSize); err != nil {
				return err
			}
		}
		d.Way.spoil(r, block)
		if _, err := f.WriteAt(block, at*blockSize); err != nil {
			return err
		}
	}
	return nil
}

func (w Way) spoil(r *rand.Rand, block []byte) {
	garbage := func(b []byte) {
		for i := range b {
			b[i] = byte(r.Uint32())
		}
	}

	switch w {
	case Bits:
		for range 1 + r.IntN(32) {
			block[r.IntN(len(block))] ^= 1 << r.IntN(8)
		}
	case Zeros:
		clear(block)
	case Garbage:
		garbage(block)
	case Torn:
		for range 1 + r.IntN(4) {
			sector := block[512*r.IntN(8):][:512]
			if r.IntN(2) == 0 {
				clear(sector)
			} else {
				garbage(sector)
			}
		}
	}
}
