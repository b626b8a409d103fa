package upgrade

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
	"github.com/loam-os/loam/partitions/gpt"
)

// bytesDevice is a Device in memory, of a fixed size.
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
	for _, c := range chunksOf(content) {
		chunk := bundle.Chunk{SHA256: sha256.Sum256(c)}
		if len(bytes.Trim(c, "\x00")) > 0 {
			chunk.At, chunk.Len = int64(len(pack)), int64(len(c))
			pack = append(pack, c...)
		}
		p.Chunks = append(p.Chunks, chunk)
	}
	return p, pack
}

func noise(seed uint64, n int) []byte {
	b, rng := make([]byte, n), rand.New(rand.NewPCG(seed, 1))
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func located(t testing.TB, content []byte) Local {
	t.Helper()
	l, err := Locate(bytes.NewReader(content), int64(len(content)))
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
	content := noise(1, 3*stride+k/2)
	clear(content[2*k : 3*k])
	part, pack := partOf(content)
	for _, test := range []struct {
		name   string
		device func(d bytesDevice)
		local  []byte
		want   Filled
	}{
		{"nothing is there", func(bytesDevice) {}, nil, Filled{Kept: k, Fetched: int64(len(pack)), Written: int64(len(content) - k)}},
		{"all is there", func(d bytesDevice) { copy(d, content) }, nil, Filled{Kept: int64(len(content))}},
		{"one chunk differs", func(d bytesDevice) { copy(d, content); d[5*k]++ }, nil, Filled{Kept: int64(len(content) - k), Fetched: k, Written: k}},
		{"zeros are not fetched", func(d bytesDevice) { copy(d, content); d[2*k]++ }, nil, Filled{Kept: int64(len(content) - k), Local: k, Written: k}},
		{"another place has it", func(d bytesDevice) { copy(d, content); clear(d[7*k : 9*k]) }, content[7*k : 9*k], Filled{Kept: int64(len(content) - 2*k), Local: 2 * k, Written: 2 * k}},
		{"the last, which is short", func(d bytesDevice) { copy(d, content); d[len(content)-1]++ }, nil, Filled{Kept: int64(len(content) - k/2), Fetched: k / 2, Written: k / 2}},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := make(bytesDevice, len(content)+k)
			test.device(d)
			known := slices.Clone(d)
			f := filler{dst: d, part: part, pack: &counted{packed: pack, left: -1}}
			if test.local != nil {
				f.locals = []Local{located(t, test.local)}
			}
			if err := f.fill(t.Context()); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(d[:len(content)], content) || f.done != test.want {
				t.Errorf("%+v, want %+v", f.done, test.want)
			}
			if err := prove(d, part); err != nil {
				t.Error(err)
			}
			f.dst, f.known, f.done = unreadable{known}, located(t, known[:len(content)]).chunks, Filled{}
			if err := f.fill(t.Context()); err != nil || !bytes.Equal(known[:len(content)], content) || f.done != test.want {
				t.Errorf("as it is known: %+v, want %+v, %v", f.done, test.want, err)
			}
		})
	}
}

func TestAFillThatIsCutOffFetchesAWindowTwiceAtMost(t *testing.T) {
	content := noise(2, 4*stride)
	part, pack := partOf(content)
	d := make(bytesDevice, len(content))
	fetched := int64(0)
	for try, left := range []int{stride / 2, stride + 1000, 2 * stride, -1} {
		f := filler{dst: d, part: part, pack: &counted{packed: pack, left: left}}
		err := f.fill(t.Context())
		if fetched += f.done.Fetched; (err != nil) != (left >= 0) {
			t.Fatalf("try %d: %v", try, err)
		}
	}
	if !bytes.Equal(d, content) {
		t.Error("the content is another")
	}
	if limit := int64(len(pack)) + 3*stride; fetched > limit {
		t.Errorf("fetched %d bytes of %d in 4 tries, more than %d", fetched, len(pack), limit)
	}
}

func TestAPackThatLiesIsNotWritten(t *testing.T) {
	content := noise(3, stride)
	part, pack := partOf(content)
	pack[len(pack)/2]++
	d := make(bytesDevice, len(content))
	f := filler{dst: d, part: part, pack: &counted{packed: pack, left: -1}}
	if err := f.fill(t.Context()); err == nil || len(bytes.Trim(d, "\x00")) > 0 {
		t.Errorf("error %v, wrote %v", err, f.done)
	}
}

func TestADiskThatLiesIsFound(t *testing.T) {
	content := noise(4, stride)
	part, _ := partOf(content)
	d := append(bytesDevice(nil), content...)
	d[1000]++
	if err := prove(d, part); err == nil {
		t.Error("another content has proven itself")
	}
}

// badSector is a device of which a byte cannot be read until it is written.
type badSector struct {
	Closer
	at *int64
}

func (d badSector) has(n int, off int64) bool { return off <= *d.at && *d.at < off+int64(n) }

func (d badSector) ReadAt(p []byte, off int64) (int, error) {
	if d.has(len(p), off) {
		return 0, errors.New("bad sector")
	}
	return d.Closer.ReadAt(p, off)
}

func (d badSector) WriteAt(p []byte, off int64) (int, error) {
	if d.has(len(p), off) {
		*d.at = -1
	}
	return d.Closer.WriteAt(p, off)
}

func TestASlotThatCannotBeReadIsWritten(t *testing.T) {
	for name, known := range map[string]bool{"what it has is known": true, "what it has is not known": false} {
		for at := range int64(2) { // The first half of the root is the same in all versions.
			c := newCourse(t, "1.0.0", "2.0.0", "3.0.0")
			c.upgrade("2.0.0", Wish{})
			c.run(Verdict{Word: Good})
			if !known {
				_ = c.Remove(contentsName)
			}
			_, slot, err := c.u.target()
			if err != nil {
				t.Fatal(err)
			}
			bad, open := at*(rootSize-1), c.u.Disk.Open
			c.u.Disk.Open = func(p gpt.Partition) (Closer, error) {
				d, err := open(p)
				if p.Index == slot.Root {
					d = badSector{d, &bad}
				}
				return d, err
			}
			if c.upgrade("3.0.0", Wish{}); bad >= 0 || c.running.Version != "3.0.0" {
				t.Errorf("%s: byte %d is as it was, %s runs", name, bad, c.running.Version)
			}
		}
	}
}
