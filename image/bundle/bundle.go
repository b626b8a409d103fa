// Package bundle is an update, the published form of one release: an index that
// names each 64 KiB of its root file system, verity tree and UKI by digest, and
// a pack that holds each distinct one of these chunks once. The index is signed
// (image/repository), so that a node verifies every byte before it writes it,
// whoever gave it the byte.
//
// loamctl bundle publishes it (image/repository) and gives the index a security
// epoch. Any web server or directory will do: nodes trust nothing in it but by
// root.json of machine.yaml.
//
//	root, verity, UKI --Write: 64 KiB chunks--> pack, each distinct chunk once
//	                                 |
//	                                 +--> Index --Encode--> text, signed by TUF
//	                                                         |
//	       plain bytes <--Chunk.Unpack-- Index <--Parse------+
//
// [Kubernetes] is a second kind of index: of the programs and images of a version
// of Kubernetes, in a pack of their own.
package bundle

import (
	"cmp"
	"encoding/hex"
	"fmt"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/partitions/verity"
)

const (
	// Format is the version of the index's shape.
	Format = 1
	// ChunkSize of plain bytes; only the last chunk of a part is shorter.
	ChunkSize = 64 << 10
	// MaxChunkSize is what a part may have in its place.
	MaxChunkSize = 1 << 20
	// MaxIndex bounds the text of an index. That of a root file system of 1 GiB
	// takes 2 MiB.
	MaxIndex = 64 << 20
)

// Index describes one release.
type Index struct {
	Format  int    `json:"format"`
	ImageID string `json:"imageID"`
	Version string `json:"version"`

	// Arch as Go names it: amd64, arm64. Profile: cloud, metal.
	Arch    string `json:"arch"`
	Profile string `json:"profile"`

	// Epoch is the security epoch: a node does not go back to a lower one.
	Epoch int `json:"epoch"`

	// RootHash is the root of the verity tree, 64 hex digits.
	RootHash string `json:"rootHash"`

	// Signature is the signature of RootHash, if it is signed.
	Signature *verity.Signature `json:"signature,omitempty"`

	// Authenticode is what firmware with Secure Boot on goes by, of the UKI;
	// nil if the index does not say.
	Authenticode *authenticode.Image `json:"authenticode,omitempty"`

	// PCRKeys are the fingerprints of the keys that have signed the UKI for PCR 11
	// (firmware/pcrsig).
	PCRKeys []string `json:"pcrKeys,omitempty"`

	Root   Part `json:"root"`
	Verity Part `json:"verity"`
	UKI    Part `json:"uki"`
	Pack   Pack `json:"pack"`
}

// Part is one file of the release. Chunk i covers bytes [i*n, min(Size,
// (i+1)*n)), where n is [Part.ChunkLen].
type Part struct {
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`

	// ChunkSize is set if it is not the constant of that name. It divides
	// MaxChunkSize.
	ChunkSize int64 `json:"chunkSize,omitempty"`

	Chunks []Chunk `json:"chunks"`
}

// Chunk says what some bytes of a part are, and where the pack has them.
type Chunk struct {
	// SHA256 of the plain bytes.
	SHA256 Digest `json:"sha256"`

	// At and Len are the bytes of the pack. Len 0: all plain bytes are zero,
	// and the pack does not have them. Len of the plain bytes: they are stored
	// as they are. Less: one zstd frame.
	At  int64 `json:"at"`
	Len int64 `json:"len"`
}

// Pack is the file with the chunks.
type Pack struct {
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// ChunkLen is the number of plain bytes in all chunks of the part but the last.
func (p Part) ChunkLen() int64 { return cmp.Or(p.ChunkSize, ChunkSize) }

// PlainLen is the number of plain bytes in chunk i of the part.
func (p Part) PlainLen(i int) int {
	return int(min(p.Size-int64(i)*p.ChunkLen(), p.ChunkLen()))
}

// count is how many chunks the part has, by its size.
func (p Part) count() int64 { return (p.Size + p.ChunkLen() - 1) / p.ChunkLen() }

// Digest is a SHA-256; in JSON, 64 hex digits.
type Digest [32]byte

func (d Digest) String() string { return hex.EncodeToString(d[:]) }

// MarshalText writes lower-case hex.
func (d Digest) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what MarshalText writes, and nothing else.
func (d *Digest) UnmarshalText(text []byte) error {
	sum, err := parseDigest(string(text))
	*d = sum
	return err
}

func parseDigest(s string) (d Digest, err error) {
	if len(s) != 2*len(d) {
		return Digest{}, fmt.Errorf("digest of %d characters, want %d hex digits", len(s), 2*len(d))
	}
	_, err = hex.Decode(d[:], []byte(s))
	if err != nil || d.String() != s {
		return Digest{}, fmt.Errorf("digest %q: want lower-case hex", s)
	}
	return d, nil
}
