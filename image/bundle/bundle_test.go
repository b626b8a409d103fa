package bundle

import (
	"bytes"
	"math/rand"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// testParts are small parts with every kind of chunk: text that shrinks, noise
// that does not, zeros, the same twice, a short last one.
func testParts() (root, verity, uki []byte) {
	noise := make([]byte, ChunkSize)
	rand.New(rand.NewSource(1)).Read(noise)
	text := bytes.Repeat([]byte("loam "), ChunkSize/5+1)[:ChunkSize]
	zeros := make([]byte, ChunkSize)
	root = bytes.Join([][]byte{text, noise, zeros, text, zeros[:4096]}, nil)

	return root, bytes.Repeat([]byte{7}, 4096), bytes.Join([][]byte{noise, []byte("the end")}, nil)
}

func source(b []byte) Source { return Source{ReaderAt: bytes.NewReader(b), Size: int64(len(b))} }

func testSources() Sources {
	root, verity, uki := testParts()
	return Sources{
		ImageID:  "loam-node-os",
		Version:  "0.2.0",
		Arch:     "amd64",
		Profile:  "cloud",
		Epoch:    3,
		RootHash: strings.Repeat("ab", 32),
		Root:     source(root),
		Verity:   source(verity),
		UKI:      source(uki),
	}
}

func write(t testing.TB, in Sources) (Index, []byte) {
	t.Helper()
	var pack bytes.Buffer
	ix, err := Write(&pack, in)
	if err != nil {
		t.Fatal(err)
	}

	return ix, pack.Bytes()
}

// unpack makes the part again.
func unpack(t testing.TB, p Part, pack []byte) []byte {
	t.Helper()
	var out []byte
	for i, c := range p.Chunks {
		plain, err := c.Unpack(pack[c.At:c.At+c.Len], p.PlainLen(i))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, plain...)
	}
	return out
}

func TestPartsComeBackFromTheirChunks(t *testing.T) {
	ix, pack := write(t, testSources())
	root, verity, uki := testParts()
	for _, tc := range []struct {
		part Part
		want []byte
	}{{ix.Root, root}, {ix.Verity, verity}, {ix.UKI, uki}} {
		if got := unpack(t, tc.part, pack); !bytes.Equal(got, tc.want) {
			t.Errorf("%d bytes, not the %d that were packed", len(got), len(tc.want))
		}
	}

	text := ix.Root.Chunks[0]
	noise := ix.Root.Chunks[1]
	short := ix.UKI.Chunks[1]
	switch {
	case text.Len == 0 || text.Len > 1000:
		t.Errorf("text takes %d bytes", text.Len)
	case noise.Len != ChunkSize || short.Len != int64(len("the end")):
		t.Errorf("what does not shrink takes %d and %d bytes", noise.Len, short.Len)
	case ix.Root.Chunks[2].Len != 0 || ix.Root.Chunks[4].Len != 0:
		t.Error("zeros are in the pack")
	case ix.Root.Chunks[3] != text || ix.UKI.Chunks[0] != noise:
		t.Error("equal chunks are in the pack twice")
	case ix.Pack.Size != int64(len(pack)) || ix.Pack.Name != "loam-node-os_0.2.0_x86-64.pack":
		t.Errorf("pack: %+v", ix.Pack)
	}
}

func TestEqualSourcesGiveEqualBundles(t *testing.T) {
	a, packA := write(t, testSources())
	b, packB := write(t, testSources())
	if diff := cmp.Diff(a, b); diff != "" || !bytes.Equal(packA, packB) {
		t.Errorf("packs equal: %t\n%s", bytes.Equal(packA, packB), diff)
	}
}

func TestParseReadsWhatEncodeWrites(t *testing.T) {
	ix, _ := write(t, testSources())
	text, err := ix.Encode()
	if err != nil {
		t.Fatal(err)
	}

	got, err := Parse(text)
	if diff := cmp.Diff(ix, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestWriteRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Sources)
		err    string
	}{
		{"a version that does for no boot entry", func(s *Sources) {
			s.Version = "0_2"
		}, "boot entry"},
		{"the architecture in systemd's words", func(s *Sources) {
			s.Arch = "x86-64"
		}, "want amd64 or arm64"},
		{"no profile", func(s *Sources) { s.Profile = "" }, "profile"},
		{"a short root hash", func(s *Sources) {
			s.RootHash = "ab"
		}, "rootHash: digest of 2 characters"},
		{"a file that ends early", func(s *Sources) { s.UKI.Size++ }, "uki: read at 65543: EOF"},
		{"an empty part", func(s *Sources) { s.Verity.Size = 0 }, "verity.size 0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := testSources()
			tc.change(&in)
			_, err := Write(&bytes.Buffer{}, in)
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

// TestShortChunks: the last chunk of a part may have any length.
func TestShortChunks(t *testing.T) {
	for _, n := range []int{
		1, 2, 63, 255, 256, 257, 600, 1023, 1025, 5000, ChunkSize - 1, ChunkSize + 1,
		ChunkSize + 300,
	} {
		in := testSources()
		want := bytes.Repeat([]byte{'x'}, n)
		in.UKI = source(want)

		ix, pack := write(t, in)
		if got := unpack(t, ix.UKI, pack); !bytes.Equal(got, want) {
			t.Errorf("%d bytes come back as %d", n, len(got))
		}
	}
}
