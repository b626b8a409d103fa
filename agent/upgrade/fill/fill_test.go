package fill

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/loam-os/loam/image/bundle"
)

// bytesDevice is a [device.Device] in memory, of a fixed size.
type bytesDevice []byte

func (d bytesDevice) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(d).ReadAt(p, off)
}
func (d bytesDevice) WriteAt(p []byte, off int64) (int, error) { return copy(d[off:], p), nil }
func (bytesDevice) Sync() error                                { return nil }

// counted is a pack that gives up after so many bytes; -1 never does.
type counted struct {
	packed []byte
	left   int
	asked  int
}

func (c *counted) Range(_ context.Context, off, n int64) (io.ReadCloser, error) {
	c.asked++
	b := c.packed[off : off+n]
	if c.left >= 0 && c.left < len(b) {
		b = b[:c.left]
	}
	if c.left >= 0 {
		c.left -= len(b)
	}
	return io.NopCloser(bytes.NewReader(b)), nil
}

// partOf packs content as a part whose chunks are stored as they are.
func partOf(content []byte) (bundle.Part, []byte) {
	sum := sha256.Sum256(content)
	p := bundle.Part{Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
	var pack []byte
	for _, c := range chunksOf(content, bundle.ChunkSize) {
		chunk := bundle.Chunk{SHA256: sha256.Sum256(c)}
		if len(bytes.Trim(c, "\x00")) > 0 {
			chunk.At = int64(len(pack))
			chunk.Len = int64(len(c))
			pack = append(pack, c...)
		}
		p.Chunks = append(p.Chunks, chunk)
	}

	return p, pack
}

func noise(seed uint64, n int) []byte {
	b := make([]byte, n)
	rng := rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func located(t testing.TB, content []byte) Local {
	t.Helper()
	l, err := Locate(bytes.NewReader(content), int64(len(content)), bundle.ChunkSize)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// unreadable is a device that is written only.
type unreadable struct{ bytesDevice }

func (unreadable) ReadAt([]byte, int64) (int, error) { return 0, errors.New("it is read") }

func TestOnlyWhatIsMissingIsFetchedAndWritten(t *testing.T) {
	const k = bundle.ChunkSize
	content := noise(1, 3*blockSize+k/2)
	clear(content[2*k : 3*k])

	part, pack := partOf(content)
	for _, test := range []struct {
		name   string
		device func(d bytesDevice)
		local  []byte
		want   Stats
	}{
		{
			"nothing is there",
			func(bytesDevice) {},
			nil,
			Stats{Kept: k, Fetched: int64(len(pack)), Written: int64(len(content) - k)},
		},
		{
			"all is there",
			func(d bytesDevice) {
				copy(d, content)
			},
			nil,
			Stats{Kept: int64(len(content))},
		},
		{
			"one chunk differs",
			func(d bytesDevice) {
				copy(d, content)
				d[5*k]++
			},
			nil,
			Stats{Kept: int64(len(content) - k), Fetched: k, Written: k},
		},
		{
			"zeros are not fetched",
			func(d bytesDevice) {
				copy(d, content)
				d[2*k]++
			},
			nil,
			Stats{Kept: int64(len(content) - k), Local: k, Written: k},
		},
		{
			"another place has it",
			func(d bytesDevice) {
				copy(d, content)
				clear(d[7*k : 9*k])
			},
			content[7*k : 9*k],
			Stats{Kept: int64(len(content) - 2*k), Local: 2 * k, Written: 2 * k},
		},
		{
			"the last, which is short",
			func(d bytesDevice) {
				copy(d, content)
				d[len(content)-1]++
			},
			nil,
			Stats{Kept: int64(len(content) - k/2), Fetched: k / 2, Written: k / 2},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := make(bytesDevice, len(content)+k)
			test.device(d)
			known := slices.Clone(d)
			j := Job{
				Target:  d,
				Part:    part,
				Sources: Sources{Pack: &counted{packed: pack, left: -1}},
			}

			if test.local != nil {
				j.Locals = []Local{located(t, test.local)}
			}

			if err := j.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(d[:len(content)], content) || j.Stats != test.want {
				t.Errorf("%+v, want %+v", j.Stats, test.want)
			}
			if err := Verify(d, part); err != nil {
				t.Error(err)
			}

			j.Target, j.Known, j.Stats = unreadable{known}, located(t,
				known[:len(content)]).chunks, Stats{}
			if err := j.Run(t.Context()); err != nil ||
				!bytes.Equal(known[:len(content)], content) || j.Stats != test.want {
				t.Errorf("as it is known: %+v, want %+v, %v", j.Stats, test.want, err)
			}
		})
	}
}

func TestAFillThatIsCutOffFetchesAWindowTwiceAtMost(t *testing.T) {
	content := noise(2, 4*blockSize)
	part, pack := partOf(content)
	d := make(bytesDevice, len(content))
	fetched := int64(0)
	for try, left := range []int{blockSize / 2, blockSize + 1000, 2 * blockSize, -1} {
		j := Job{Target: d, Part: part, Sources: Sources{Pack: &counted{packed: pack, left: left}}}
		err := j.Run(t.Context())
		fetched += j.Stats.Fetched
		if (err != nil) != (left >= 0) {
			t.Fatalf("try %d: %v", try, err)
		}
	}

	if !bytes.Equal(d, content) {
		t.Error("the content is another")
	}
	if limit := int64(len(pack)) + 3*blockSize; fetched > limit {
		t.Errorf("fetched %d bytes of %d in 4 tries, more than %d", fetched, len(pack), limit)
	}
}

func TestAPackThatLiesIsNotWritten(t *testing.T) {
	content := noise(3, blockSize)
	part, pack := partOf(content)
	pack[len(pack)/2]++
	d := make(bytesDevice, len(content))
	j := Job{Target: d, Part: part, Sources: Sources{Pack: &counted{packed: pack, left: -1}}}
	if err := j.Run(t.Context()); err == nil || len(bytes.Trim(d, "\x00")) > 0 {
		t.Errorf("error %v, wrote %v", err, j.Stats)
	}
}

func TestADiskThatLiesIsFound(t *testing.T) {
	content := noise(4, blockSize)
	part, _ := partOf(content)
	d := append(bytesDevice(nil), content...)
	d[1000]++
	if err := Verify(d, part); err == nil {
		t.Error("another content has proven itself")
	}
}
