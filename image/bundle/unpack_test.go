package bundle

import (
	"bytes"
	"crypto/sha256"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func compressed(t testing.TB, plain []byte, options ...zstd.EOption) []byte {
	t.Helper()
	enc, err := zstd.NewWriter(nil, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()

	return enc.EncodeAll(plain, nil)
}

func TestUnpackRefuses(t *testing.T) {
	plain := bytes.Repeat([]byte("loam"), 1000)
	bomb := compressed(t, make([]byte, 64<<20))
	good := compressed(t, plain)

	// Without a content size in its header, a frame says nothing about the
	// memory it takes.
	var stream bytes.Buffer
	enc, err := zstd.NewWriter(&stream)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := enc.Write(plain); err != nil {
		t.Fatal(err)
	}

	if err := enc.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := enc.Close(); err != nil {
		t.Fatal(err)
	}

	for _, tc := range []struct {
		name   string
		packed []byte
		plain  int
		err    string
	}{
		{"a frame of more than it should have", bomb, len(plain), "a frame of 67108864 bytes"},
		{
			"a frame of less than it should have",
			compressed(t, plain[:100], zstd.WithSingleSegment(true)),
			len(plain),
			"a frame of 100 bytes",
		},
		{"a frame of unknown size", stream.Bytes(), len(plain), "known: false"},
		{
			"a second frame after the first",
			append(bytes.Clone(good), bomb...),
			len(plain),
			"zstd: ",
		},
		{"a frame cut short", good[:len(good)-3], len(plain), "zstd: "},
		{
			"other bytes",
			compressed(t, bytes.Repeat([]byte("Loam"), 1000)),
			len(plain),
			"have digest",
		},
		{"no frame", []byte("not zstd"), len(plain), "zstd: "},
		{"zeros for text", nil, len(plain), "have digest"},
		{"other bytes, stored", make([]byte, len(plain)), len(plain), "have digest"},
		{"a length of nothing", nil, 0, "0 bytes packed and 0 plain"},
		{"a length beyond a chunk", good, MaxChunkSize + 1, "1048577 plain"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := Chunk{SHA256: sha256.Sum256(plain), Len: int64(len(tc.packed))}
			_, err := c.Unpack(tc.packed, tc.plain)
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}

	longer := Chunk{SHA256: sha256.Sum256(plain), Len: int64(len(good)) + 1}
	if _, err := longer.Unpack(good, len(plain)); err == nil {
		t.Error("less than the chunk has: accepted")
	}
}

// FuzzUnpack: whatever comes is refused or what the digest says, and no memory
// is taken beyond it.
func FuzzUnpack(f *testing.F) {
	plain := bytes.Repeat([]byte("loam"), 1000)
	f.Add(compressed(f, plain), len(plain))
	f.Add(plain, len(plain))
	f.Add([]byte{}, 1)

	f.Fuzz(func(t *testing.T, packed []byte, n int) {
		c := Chunk{SHA256: sha256.Sum256(plain), Len: int64(len(packed))}
		if got, err := c.Unpack(packed, n); err == nil && !bytes.Equal(got, plain) {
			t.Errorf("%d bytes accepted", len(got))
		}
	})
}

func BenchmarkUnpack(b *testing.B) {
	plain := bytes.Repeat([]byte("loam and some more text"), 3000)[:ChunkSize]
	packed := compressed(b, plain, zstd.WithSingleSegment(true))
	c := Chunk{SHA256: sha256.Sum256(plain), Len: int64(len(packed))}
	b.SetBytes(ChunkSize)
	b.ReportAllocs()

	for b.Loop() {
		if _, err := c.Unpack(packed, len(plain)); err != nil {
			b.Fatal(err)
		}
	}
}
