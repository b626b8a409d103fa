package fill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions/device"
)

// blockSize is how much is read, fetched, written and made durable at once. Two
// blocks may be fetched but not durable when the power is cut.
const blockSize = 2 << 20

// maxGap is how many unwanted bytes of the pack are fetched rather than sending
// a second request.
const maxGap = bundle.ChunkSize

// Pack reads the pack of a bundle.
type Pack interface {
	// Range reads n bytes at off.
	Range(ctx context.Context, off, n int64) (io.ReadCloser, error)
}

// Local is content of this machine that another system may have in common.
type Local struct {
	r        io.ReaderAt
	size     int64
	chunkLen int64
	at       map[bundle.Digest]int64
	chunks   []bundle.Digest // in their order
}

// Locate reads size bytes and indexes their chunks of chunkLen bytes, which
// divides blockSize.
func Locate(r io.ReaderAt, size, chunkLen int64) (Local, error) {
	l := Local{
		r:        r,
		size:     size,
		chunkLen: chunkLen,
		at:       map[bundle.Digest]int64{},
	}
	buf := make([]byte, blockSize)
	for off := int64(0); off < size; off += blockSize {
		n := min(blockSize, size-off)
		if got, err := r.ReadAt(buf[:n], off); int64(got) < n {
			return l, err
		}
		for i, c := range chunksOf(buf[:n], chunkLen) {
			sum := bundle.Digest(sha256.Sum256(c))
			l.at[sum] = off + int64(i)*chunkLen
			l.chunks = append(l.chunks, sum)
		}
	}
	return l, nil
}

func chunksOf(b []byte, chunkLen int64) [][]byte {
	return slices.Collect(slices.Chunk(b, int(chunkLen)))
}

// Digests returns the digests of the chunks, in their order.
func (l Local) Digests() []bundle.Digest { return l.chunks }

// Chunk returns the chunk with that digest; nil if it is absent, or no longer
// what it was.
func (l Local) Chunk(want bundle.Digest) []byte {
	off, ok := l.at[want]
	if !ok {
		return nil
	}
	b := make([]byte, min(l.chunkLen, l.size-off))
	if n, _ := l.r.ReadAt(b, off); n < len(b) || sha256.Sum256(b) != want {
		return nil
	}
	return b
}

// Stats counts what filling a part took, in bytes.
type Stats struct {
	// Kept was there already.
	Kept int64
	// Local came from elsewhere on this machine.
	Local int64
	// Near came from a mirror.
	Near int64
	// Fetched came from the pack.
	Fetched int64
	// Written is what was written.
	Written int64
}

// ErrUnreachable says that the chunks of the bundle cannot be had now: try
// again later.
var ErrUnreachable = fault.With(errors.New("the repository cannot be reached"),
	fault.RepositoryUnreachable)

// Sources are where chunks come from that this machine does not have.
type Sources struct {
	// Nearby is asked first; nil if none.
	Nearby Nearby
	Pack   Pack
}

// Nearby has chunks close by, such as [Mirrors].
type Nearby interface {
	// Chunk returns the n bytes of a chunk, nil if it does not have them. The
	// caller verifies them.
	Chunk(ctx context.Context, c bundle.Chunk, n int) []byte
}

// Job fills one target with the content of one part.
type Job struct {
	Target device.Device
	Part   bundle.Part

	// Known are the chunks that the target holds, if that is known without
	// reading it; nil if not.
	Known []bundle.Digest

	// Locals are tried before the sources.
	Locals  []Local
	Sources Sources

	// Progress is called after each write; nil if none.
	Progress func(Stats)

	// Stats counts what Run has done so far.
	Stats Stats
}

// piece is one block of a part in flight: it is read, compared, fetched where
// it differs, and written, while other pieces are at other steps.
type piece struct {
	off        int64
	have, want []byte
	unread     bool   // could not be read
	differs    []bool // by chunk
	done       Stats
	err        error
}

// maxInFlight is how many pieces are in memory.
const maxInFlight = 5

// Run resumes wherever an earlier Run stopped: the device tells. All bytes are
// verified before they are written. Bytes that are right already are not
// written. What was fetched before an error is written, too.
func (j *Job) Run(ctx context.Context) error {
	var group sync.WaitGroup
	defer group.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	free := make(chan *piece, maxInFlight)
	size := min(blockSize, j.Part.Size)
	for range maxInFlight {
		free <- &piece{
			have:    make([]byte, size),
			want:    make([]byte, size),
			differs: make([]bool, blockSize/j.Part.ChunkLen()),
		}
	}

	pieces := j.pieces(ctx, &group, free)
	for _, step := range []func(context.Context, *piece) error{j.read, j.compare, j.get} {
		pieces = each(ctx, &group, pieces, step)
	}

	for p := range pieces {
		if p.err == nil {
			p.err = j.write(p)
		}

		j.Stats.add(p.done)
		if p.err != nil {
			return p.err
		}

		if j.Progress != nil {
			j.Progress(j.Stats)
		}

		free <- p
	}

	return ctx.Err()
}

// pieces sends the pieces of the part in order, in the memory of free ones.
func (j *Job) pieces(ctx context.Context, group *sync.WaitGroup, free <-chan *piece) <-chan *piece {
	out := make(chan *piece)
	group.Go(func() {
		defer close(out)
		for off := int64(0); off < j.Part.Size && ctx.Err() == nil; off += blockSize {
			select {
			case p := <-free:
				n := min(blockSize, j.Part.Size-off)
				*p = piece{
					off:     off,
					have:    p.have[:n],
					want:    p.want[:n],
					differs: p.differs[:(n+j.Part.ChunkLen()-1)/j.Part.ChunkLen()],
				}
				pass(ctx, out, p)
			case <-ctx.Done():
			}
		}
	})

	return out
}

// each runs a step on each piece that has no error yet.
func each(
	ctx context.Context,
	group *sync.WaitGroup,
	in <-chan *piece,
	step func(context.Context, *piece) error,
) <-chan *piece {
	out := make(chan *piece)
	group.Go(func() {
		defer close(out)
		for p := range in {
			if p.err == nil {
				p.err = step(ctx, p)
			}
			pass(ctx, out, p)
		}
	})
	return out
}

func pass(ctx context.Context, to chan<- *piece, p *piece) {
	select {
	case to <- p:
	case <-ctx.Done():
	}
}

func (d *Stats) add(o Stats) {
	d.Kept += o.Kept
	d.Local += o.Local
	d.Near += o.Near
	d.Fetched += o.Fetched
	d.Written += o.Written
}

// read reads what is there, unless that is known. What cannot be read is
// written: a disk replaces a bad sector then.
func (j *Job) read(_ context.Context, p *piece) error {
	if j.Known == nil {
		n, _ := j.Target.ReadAt(p.have, p.off)
		p.unread = n < len(p.have)
	}
	return nil
}

// compare finds the chunks that differ. Chunks beyond Known do.
func (j *Job) compare(_ context.Context, p *piece) error {
	for i, c := range chunksOf(p.have, j.Part.ChunkLen()) {
		var have bundle.Digest
		if at := j.index(p, i); j.Known == nil {
			have = sha256.Sum256(c)
		} else if at < len(j.Known) {
			have = j.Known[at]
		}
		p.differs[i] = p.unread || have != j.chunk(p, i).SHA256
		if !p.differs[i] {
			p.done.Kept += int64(len(c))
		}
	}
	return nil
}

// index returns the chunk of the part that the i-th of a piece is.
func (j *Job) index(p *piece, i int) int { return int(p.off/j.Part.ChunkLen()) + i }

// chunk returns what the i-th chunk of a piece has to be.
func (j *Job) chunk(p *piece, i int) bundle.Chunk {
	return j.Part.Chunks[j.index(p, i)]
}

// get copies or fetches what differs from the nearest place.
func (j *Job) get(ctx context.Context, p *piece) error {
	var missing []int
	for i, room := range chunksOf(p.want, j.Part.ChunkLen()) {
		if !p.differs[i] {
			continue
		}
		c := j.chunk(p, i)
		if b := j.local(c, len(room)); b != nil {
			p.done.Local += int64(copy(room, b))
		} else if b := j.nearby(ctx, c, len(room)); b != nil {
			p.done.Near += int64(copy(room, b))
		} else {
			missing = append(missing, i)
		}
	}

	return j.fetch(ctx, p, missing)
}

func (j *Job) local(c bundle.Chunk, n int) []byte {
	if c.Len == 0 {
		return make([]byte, n)
	}
	for _, l := range j.Locals {
		if b := l.Chunk(c.SHA256); len(b) == n {
			return b
		}
	}
	return nil
}

// nearby returns a chunk of a mirror; nil if no mirror has the right one.
func (j *Job) nearby(ctx context.Context, c bundle.Chunk, n int) []byte {
	if j.Sources.Nearby == nil {
		return nil
	}
	b := j.Sources.Nearby.Chunk(ctx, c, n)
	if len(b) != n || sha256.Sum256(b) != c.SHA256 {
		return nil
	}
	return b
}

// fetch fetches chunks of the pack, neighbours with one request.
func (j *Job) fetch(ctx context.Context, p *piece, missing []int) error {
	at := func(i int) bundle.Chunk { return j.chunk(p, i) }
	slices.SortFunc(missing, func(a, b int) int { return int(at(a).At - at(b).At) })

	for len(missing) > 0 {
		run := 1
		end := at(missing[0]).At + at(missing[0]).Len
		for run < len(missing) && at(missing[run]).At <= end+maxGap {
			end = max(end, at(missing[run]).At+at(missing[run]).Len)
			run++
		}
		if err := j.fetchRun(ctx, p, missing[:run], end); err != nil {
			return err
		}

		missing = missing[run:]
	}

	return nil
}

func (j *Job) fetchRun(ctx context.Context, p *piece, run []int, end int64) error {
	start := j.chunk(p, run[0]).At
	packed := j.inPlace(p, run)
	if packed == nil {
		packed = make([]byte, end-start)
	}

	n, err := readPack(ctx, j.Sources.Pack, start, packed)
	p.done.Fetched += int64(n)
	if err != nil {
		return fmt.Errorf("%w: bytes %d to %d of the pack: %w", ErrUnreachable, start, end, err)
	}

	rooms := chunksOf(p.want, j.Part.ChunkLen())
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))

	for _, i := range run {
		group.Go(func() error {
			c := j.chunk(p, i)
			plain, err := c.Unpack(packed[c.At-start:][:c.Len], len(rooms[i]))
			if err != nil {
				return fault.With(fmt.Errorf("chunk at %d of the pack: %w", c.At, err),
					fault.RepositoryDamaged)
			}

			copy(rooms[i], plain)
			return nil
		})
	}

	return group.Wait()
}

// inPlace returns the memory where the chunks of a run belong, if the pack has
// them stored one after the other; otherwise nil.
func (j *Job) inPlace(p *piece, run []int) []byte {
	size := j.Part.ChunkLen()
	first := j.chunk(p, run[0])
	for n, i := range run {
		c := j.chunk(p, i)
		if i != run[0]+n || c.At != first.At+int64(n)*size ||
			c.Len != int64(j.Part.PlainLen(j.index(p, i))) {
			return nil
		}
	}

	from := int64(run[0]) * size
	to := int64(run[len(run)-1]+1) * size
	return p.want[from:min(to, int64(len(p.want)))]
}

func readPack(ctx context.Context, pack Pack, off int64, into []byte) (n int, err error) {
	r, err := pack.Range(ctx, off, int64(len(into)))
	if err != nil {
		return 0, err
	}
	n, err = io.ReadFull(r, into)
	return n, errors.Join(err, r.Close())
}

// write writes what differs, neighbours with one call, and makes it durable.
func (j *Job) write(p *piece) error {
	for i := 0; i < len(p.differs); i++ {
		if !p.differs[i] {
			continue
		}

		start := i
		for i < len(p.differs) && p.differs[i] {
			i++
		}

		at := start * int(j.Part.ChunkLen())
		b := p.want[at:min(i*int(j.Part.ChunkLen()), len(p.want))]
		if _, err := j.Target.WriteAt(b, p.off+int64(at)); err != nil {
			return fmt.Errorf("write at %d: %w", p.off+int64(at), err)
		}

		p.done.Written += int64(len(b))
	}

	if p.done.Written == 0 {
		return nil
	}
	return j.Target.Sync()
}

// Verify reads all of a part again and compares it with its digest.
func Verify(r io.ReaderAt, p bundle.Part) error {
	sum := sha256.New()
	_, err := io.CopyBuffer(struct{ io.Writer }{sum}, io.NewSectionReader(r, 0, p.Size),
		make([]byte, blockSize))
	if err != nil {
		return fmt.Errorf("read it again: %w", err)
	}

	if got := hex.EncodeToString(sum.Sum(nil)); got != p.SHA256 {
		return hint.With(
			fmt.Errorf("what was written reads back as %.12s, not %.12s", got, p.SHA256),
			"the disk is failing",
		)
	}

	return nil
}
