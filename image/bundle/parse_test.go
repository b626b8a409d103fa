package bundle

import (
	"bytes"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/partitions/verity"
)

func TestParseRefusesText(t *testing.T) {
	ix, _ := write(t, testSources())
	text, err := ix.Encode()
	if err != nil {
		t.Fatal(err)
	}

	good := string(text)
	for _, tc := range []struct {
		name, text, err string
	}{
		{"nothing", "", "EOF"},
		{
			"another format",
			strings.Replace(good, `"format":1`, `"format":2`, 1),
			"format 2, this program knows 1",
		},
		{"two documents", good + good, "more after its end"},
		{
			"a size that is no integer",
			strings.Replace(good, `"size":`, `"size":0.`, 1),
			"number 0.",
		},
		{
			"a digest in upper case",
			strings.Replace(good, ix.Root.Chunks[0].SHA256.String(),
				strings.ToUpper(ix.Root.Chunks[0].SHA256.String()), 1),
			"want lower-case hex",
		},
		{
			"a digest cut short",
			strings.Replace(good, ix.Root.Chunks[0].SHA256.String(), "abcd",
				1),
			"digest of 4 characters",
		},
		{"more text than an index may have", good + strings.Repeat(" ", MaxIndex), "at most"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse([]byte(tc.text))
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

func TestParseLeavesOutWhatLaterReleasesSay(t *testing.T) {
	want, _ := write(t, testSources())
	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}

	later := strings.NewReplacer(`{"format"`, `{"later":{"a":[1]},"format"`, `"at":`,
		`"later":1,"at":`).Replace(string(text))
	got, err := Parse([]byte(later))
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestValidateRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Index)
		err    string
	}{
		{"a pack with a path for a name", func(ix *Index) {
			ix.Pack.Name = "../loam-node-os_0.2.0_x86-64.pack"
		}, "pack.name"},
		{"a pack of another release", func(ix *Index) { ix.Version = "0.3.0" }, "pack.name"},
		{"a pack of no size", func(ix *Index) { ix.Pack.Size = -1 }, "pack.size -1"},
		{"a pack without digest", func(ix *Index) { ix.Pack.SHA256 = "" }, "pack.sha256"},
		{"a negative epoch", func(ix *Index) { ix.Epoch = -1 }, "epoch -1"},
		{"a root hash in upper case", func(ix *Index) {
			ix.RootHash = strings.ToUpper(ix.RootHash)
		}, "lower-case"},
		{"a key for PCR 11 cut short", func(ix *Index) {
			ix.PCRKeys = []string{"ab"}
		}, "pcrKeys[0]"},
		{"a digest of the image cut short", func(ix *Index) {
			ix.Authenticode = &authenticode.Image{SHA256: "ab"}
		}, "authenticode.sha256"},
		{"a signature that fills no partition", func(ix *Index) {
			ix.Signature = &verity.Signature{
				RootHash:  ix.RootHash,
				Signature: make([]byte, verity.MaxSignature),
			}
		}, "signature of a root hash: 21"},
		{"a signature by nobody", func(ix *Index) {
			ix.Authenticode = &authenticode.Image{SHA256: ix.RootHash, Signatures: [][][]byte{{}}}
		}, "authenticode.signatures[0]: no certificate"},
		{"a signature by what is no certificate", func(ix *Index) {
			ix.Authenticode = &authenticode.Image{
				SHA256:     ix.RootHash,
				Signatures: [][][]byte{{[]byte("signer")}},
			}
		}, "authenticode.signatures[0][0]: x509"},
		{"a profile with a slash", func(ix *Index) { ix.Profile = "cloud/metal" }, "profile"},
		{"a part of no size", func(ix *Index) {
			ix.Verity.Size = 0
		}, "verity.size 0: out of range"},
		{"a part beyond all disks", func(ix *Index) { ix.Root.Size = math.MaxInt64 }, "root.size"},
		{"a chunk too few", func(ix *Index) {
			ix.Root.Chunks = ix.Root.Chunks[1:]
		}, "root.chunks: 4, want 5"},
		{"a chunk too many", func(ix *Index) { ix.Root.Size -= 4096 }, "root.chunks: 5, want 4"},
		{"a chunk beyond the pack", func(ix *Index) {
			ix.Root.Chunks[1].At = ix.Pack.Size - 1
		}, "root.chunks[1]: bytes"},
		{"a chunk before the pack", func(ix *Index) {
			ix.Root.Chunks[1].At = -1
		}, "root.chunks[1]: bytes -1"},
		{"an offset that overflows", func(ix *Index) {
			ix.Root.Chunks[1].At = math.MaxInt64
		}, "not in the pack"},
		{"a chunk longer than its plain bytes", func(ix *Index) {
			ix.UKI.Chunks[1].Len = 8
		}, "uki.chunks[1]: len 8: want 0 to 7"},
		{"a negative length", func(ix *Index) { ix.UKI.Chunks[1].Len = -1 }, "len -1"},
		{"zeros that are somewhere", func(ix *Index) { ix.Root.Chunks[2].At = 1 }, "at 1"},
		{"zeros that are not", func(ix *Index) { ix.Root.Chunks[2].SHA256[0]++ }, "only for them"},
		{"a chunk said to be zeros", func(ix *Index) {
			ix.Root.Chunks[1].At = 0
			ix.Root.Chunks[1].Len = 0
		}, "only for them"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ix, _ := write(t, testSources())
			ix.Root.Chunks = slices.Clone(ix.Root.Chunks)
			tc.change(&ix)
			if err := ix.Validate(); err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}

			if _, err := ix.Encode(); err == nil {
				t.Error("it can be encoded")
			}
		})
	}
}

// TestParseReadsWhoHasSigned a UKI. An index that does not say, as they were
// before, is read, too.
func TestParseReadsWhoHasSigned(t *testing.T) {
	b, err := os.ReadFile("../../firmware/authenticode/testdata/signed.efi")
	if err != nil {
		t.Fatal(err)
	}

	im, err := authenticode.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil || len(im.Signatures) != 1 {
		t.Fatal(im, err)
	}

	ix, _ := write(t, testSources())
	for _, want := range []*authenticode.Image{nil, {SHA256: im.SHA256}, &im} {
		ix.Authenticode = want
		text, err := ix.Encode()
		if err != nil || strings.Contains(string(text), "authenticode") != (want != nil) {
			t.Fatal(string(text), err)
		}

		got, err := Parse(text)
		if diff := cmp.Diff(want, got.Authenticode); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	}
}

// FuzzParse: an index that parses is encoded and parsed as itself, and all its
// chunks lie in the pack.
func FuzzParse(f *testing.F) {
	ix, _ := write(f, testSources())
	text, err := ix.Encode()
	if err != nil {
		f.Fatal(err)
	}

	f.Add(text)
	f.Fuzz(func(t *testing.T, text []byte) {
		ix, err := Parse(text)
		if err != nil {
			return
		}

		for _, p := range []Part{ix.Root, ix.Verity, ix.UKI} {
			total := int64(0)
			for i, c := range p.Chunks {
				total += int64(p.PlainLen(i))
				if c.At < 0 || c.Len < 0 || c.At+c.Len > ix.Pack.Size {
					t.Fatalf("chunk %+v, pack of %d", c, ix.Pack.Size)
				}
			}
			if total != p.Size {
				t.Fatalf("chunks of %d bytes, part of %d", total, p.Size)
			}
		}

		again, err := ix.Encode()
		if err != nil {
			t.Fatal(err)
		}

		back, err := Parse(again)
		if diff := cmp.Diff(ix, back); err != nil || diff != "" {
			t.Fatalf("%v\n%s", err, diff)
		}
	})
}
