package verity

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/loam-os/loam/test/judge"
)

var params = Params{
	Salt: [32]byte{0xde, 0xad, 31: 0x01},
	UUID: uuid.MustParse("b9f0a2f4-53a5-4d0b-8a5e-0c3a3a2d4f11"),
}

// memory is a growing device in memory.
type memory struct{ data []byte }

func (m *memory) WriteAt(p []byte, off int64) (int, error) {
	if grow := off + int64(len(p)) - int64(len(m.data)); grow > 0 {
		m.data = append(m.data, make([]byte, grow)...)
	}
	return copy(m.data[off:], p), nil
}

// random makes n blocks of data that are the same in every run.
func random(n int) []byte {
	b := make([]byte, n*BlockSize)
	rand.NewChaCha8([32]byte{7}).Read(b)
	return b
}

// built is data and a hash device over it.
func built(t *testing.T, blocks int) (data, hash []byte, root [32]byte) {
	t.Helper()
	data = random(blocks)
	var m memory
	root, size, err := Build(bytes.NewReader(data), int64(len(data)), &m, params)
	if err != nil {
		t.Fatal(err)
	}

	if size != int64(len(m.data)) || size != HashSize(int64(blocks)) {
		t.Fatalf("hash size %d, %d bytes written", size, len(m.data))
	}

	return data, m.data, root
}

// blockCounts are where the number of levels changes, and a tree of three
// levels.
var blockCounts = []int{1, 2, 127, 128, 129, 1000, 128*128 + 1}

func TestVerifyAcceptsWhatBuildMakes(t *testing.T) {
	for _, n := range blockCounts {
		data, hash, root := built(t, n)
		if err := Verify(bytes.NewReader(data), bytes.NewReader(hash), root); err != nil {
			t.Errorf("%d blocks: %v", n, err)
		}
	}
}

func TestVerifyNamesTheFirstBadBlock(t *testing.T) {
	const n = 128*128 + 1 // top in block 1, then 2 blocks, then 129
	for _, tc := range []struct {
		name       string
		data, hash int64 // flipped byte; -1: none
		want       BlockError
	}{
		{"first data byte", 0, -1, BlockError{"data", 0}},
		{"last data byte", n*BlockSize - 1, -1, BlockError{"data", n - 1}},
		{"data and tree", 5 * BlockSize, 2*BlockSize + 3, BlockError{"hash", 2}},
		{"top of the tree", -1, BlockSize, BlockError{"hash", 1}},
		{"padding at the end of the tree", -1, (1+1+2+129)*BlockSize - 1, BlockError{"hash", 132}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data, hash, root := built(t, n)
			if tc.data >= 0 {
				data[tc.data] ^= 1
			}
			if tc.hash >= 0 {
				hash[tc.hash] ^= 1
			}

			var bad *BlockError
			err := Verify(bytes.NewReader(data), bytes.NewReader(hash), root)
			if !errors.As(err, &bad) {
				t.Fatalf("error %v, want a BlockError", err)
			}

			if diff := cmp.Diff(tc.want, *bad); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVerifyRefuses(t *testing.T) {
	data, hash, root := built(t, 300)
	root[0]++
	if err := Verify(bytes.NewReader(data), bytes.NewReader(hash), root); err == nil {
		t.Error("wrong root hash accepted")
	}

	root[0]--
	if err := Verify(bytes.NewReader(data[:len(data)-1]), bytes.NewReader(hash), root); err == nil {
		t.Error("data that ends early accepted")
	}

	longer := bytes.NewReader(append(data, make([]byte, 300*BlockSize)...))
	for _, blocks := range []int{0, 1, 128, 257, 299, 300, 301, 384, 600} {
		other := bytes.Clone(hash)
		binary.LittleEndian.PutUint64(other[72:], uint64(blocks))
		if err := Verify(longer, bytes.NewReader(other), root); (err == nil) != (blocks == 300) {
			t.Errorf("%d blocks: %v", blocks, err)
		}
	}

	if err := Verify(bytes.NewReader(data), bytes.NewReader(hash[:2*BlockSize]), root); err == nil {
		t.Error("tree that ends early accepted")
	}
}

func TestBuildRefusesHalfABlock(t *testing.T) {
	for _, size := range []int64{0, -4096, 4095, 6000} {
		if _, _, err := Build(bytes.NewReader(random(2)), size, &memory{}, params); err == nil {
			t.Errorf("size %d accepted", size)
		}
	}
}

func TestTable(t *testing.T) {
	s := Superblock{DataBlocks: 77, Salt: [32]byte{0xab}}
	want := "1 /dev/vda3 254:2 4096 4096 77 1 sha256 01" + strings.Repeat("00", 31) + " ab" +
		strings.Repeat("00", 31)
	if got := s.Table("/dev/vda3", "254:2", [32]byte{1}); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestReadSuperblock(t *testing.T) {
	good := Superblock{UUID: params.UUID, DataBlocks: 4711, Salt: params.Salt}

	for _, tc := range []struct {
		name   string
		change func([]byte) []byte
		err    string
	}{
		{"as written", func(b []byte) []byte { return b }, ""},
		{"short", func(b []byte) []byte { return b[:511] }, "EOF"},
		{"no signature", func(b []byte) []byte { b[0]++; return b }, "no verity signature"},
		{"version 2", func(b []byte) []byte { b[8] = 2; return b }, "version 2"},
		{"sha512", func(b []byte) []byte {
			copy(b[32:], "sha512")
			return b
		}, `algorithm "sha512"`},
		{"blocks of 1024", func(b []byte) []byte {
			b[65] = 4
			return b
		}, "blocks of 1024 and 4096"},
		{"no data blocks", func(b []byte) []byte { clear(b[72:80]); return b }, "0 data blocks"},
		{"more data than there can be", func(b []byte) []byte {
			b[79] = 0xff
			return b
		}, "data blocks: want"},
		{"salt of 16 bytes", func(b []byte) []byte { b[80] = 16; return b }, "salt of 16 bytes"},
		{"padding in use", func(b []byte) []byte { b[500] = 1; return b }, "zero padding"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ReadSuperblock(bytes.NewReader(tc.change(good.encode())))
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want %q", err, tc.err)
				}
				return
			}
			if err != nil || got != good {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
}

// TestVeritysetup lets veritysetup verify our tree, and make one of its own
// that must be equal to the byte.
func TestVeritysetup(t *testing.T) {
	for _, n := range blockCounts {
		t.Run(fmt.Sprint(n, " blocks"), func(t *testing.T) {
			data, hash, root := built(t, n)
			dir := t.TempDir()
			d := filepath.Join(dir, "data")
			h := filepath.Join(dir, "hash")
			theirs := filepath.Join(dir, "theirs")
			for path, content := range map[string][]byte{d: data, h: hash, theirs: nil} {
				if err := os.WriteFile(path, content, 0o600); err != nil {
					t.Fatal(err)
				}
			}

			judge.Run(t, "veritysetup", "verify", d, h, hex.EncodeToString(root[:]))
			out := judge.Run(t, "veritysetup", "format", "--salt",
				hex.EncodeToString(params.Salt[:]), "--uuid", params.UUID.String(), d, theirs)
			m := regexp.MustCompile(`Root hash:\s+(\S+)`).FindStringSubmatch(out)
			if m == nil || m[1] != hex.EncodeToString(root[:]) {
				t.Errorf("root hash %x, veritysetup:\n%s", root, out)
			}

			if b, err := os.ReadFile(theirs); err != nil || !bytes.Equal(b, hash) {
				t.Errorf("veritysetup's hash device differs (error %v)", err)
			}
		})
	}
}

// FuzzReadSuperblock: any bytes give an error or a superblock that encodes to
// the same bytes.
func FuzzReadSuperblock(f *testing.F) {
	f.Add(Superblock{DataBlocks: 1}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := ReadSuperblock(bytes.NewReader(b))
		if err == nil && !bytes.Equal(s.encode(), b[:superblockSize]) {
			t.Errorf("%+v encodes to other bytes", s)
		}
		if err == nil && HashSize(s.DataBlocks) <= 0 {
			t.Errorf("%+v: hash size overflows", s)
		}
	})
}

func BenchmarkBuild(b *testing.B) {
	data := bytes.NewReader(random(150 << 20 / BlockSize))
	b.SetBytes(data.Size())
	for b.Loop() {
		_, _, err := Build(data, data.Size(), &memory{data: make([]byte, 2<<20)},
			params)
		if err != nil {
			b.Fatal(err)
		}
	}
}
