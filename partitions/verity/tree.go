package verity

import (
	"crypto/sha256"
	"io"
	"runtime"
	"sync"
)

const (
	// hashesPerBlock is the fan-out of the tree.
	hashesPerBlock = BlockSize / sha256.Size
	// firstTreeBlock is the block of the hash device that holds the top of the
	// tree: the superblock takes block 0.
	firstTreeBlock = 1
	// batch is the number of blocks that a worker reads at once: 1 MiB.
	batch = 256
)

// level is one level of the tree on the hash device, in blocks.
type level struct {
	start, blocks int64
}

// levels lays out the tree over dataBlocks blocks: first the level that hashes
// the data, last the one block whose hash is the root hash. On the device they
// lie the other way round. One data block needs no tree, its hash is the root
// hash.
func levels(dataBlocks int64) (ls []level) {
	for n := dataBlocks; n > 1; {
		n = (n + hashesPerBlock - 1) / hashesPerBlock
		ls = append(ls, level{blocks: n})
	}
	start := int64(firstTreeBlock)
	for i := len(ls) - 1; i >= 0; i-- {
		ls[i].start = start
		start += ls[i].blocks
	}
	return ls
}

// HashSize is the size of the hash area over dataBlocks blocks, with its
// superblock, in bytes.
func HashSize(dataBlocks int64) int64 {
	blocks := int64(firstTreeBlock)
	for _, l := range levels(dataBlocks) {
		blocks += l.blocks
	}
	return blocks * BlockSize
}

// hashBlocks hashes n blocks of r, block by block, on all CPUs. It pads the
// result with zeros to full blocks: the next level.
func hashBlocks(r io.ReaderAt, n int64, salt [SaltSize]byte) ([]byte, error) {
	out := make([]byte, (n+hashesPerBlock-1)/hashesPerBlock*BlockSize)
	batches := make(chan int64)
	errs := make([]error, runtime.GOMAXPROCS(0))
	var workers sync.WaitGroup
	for i := range errs {
		workers.Go(func() {
			for first := range batches {
				count := min(batch, n-first)
				if errs[i] == nil {
					errs[i] = hashBatch(r, first, count, salt,
						out[first*sha256.Size:][:count*sha256.Size])
				}
			}
		})
	}

	for first := int64(0); first < n; first += batch {
		batches <- first
	}

	close(batches)
	workers.Wait()

	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}

	return out, nil
}
