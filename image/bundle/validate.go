package bundle

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"fmt"
	"strings"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/bootentry"
)

// maxPart bounds a part, far above any slot, so that sums of sizes do not
// overflow.
const maxPart = 1 << 40

// Base is what the names of the release's files begin with: ID_VERSION_ARCH,
// the architecture as systemd writes it. A name that would not do for a boot
// entry is an error.
func Base(imageID, version, arch string) (string, error) {
	if arch != "amd64" && arch != "arm64" {
		return "", fmt.Errorf("arch %q: want amd64 or arm64", arch)
	}
	file, err := bootentry.Format(bootentry.Name{
		ImageID: imageID,
		Version: version,
		Arch:    bootentry.Arch(arch),
	})
	return strings.TrimSuffix(file, ".efi"), err
}

// Validate returns the faults of the index.
func (ix Index) Validate() error {
	if ix.Format != Format {
		return fmt.Errorf("index: format %d, this program knows %d", ix.Format, Format)
	}

	err := ix.checkHead()
	if err == nil {
		err = ix.checkPack()
	}

	if err != nil {
		return fmt.Errorf("index: %w", err)
	}

	for i, p := range []Part{ix.Root, ix.Verity, ix.UKI} {
		if p.ChunkSize != 0 { // Nodes of earlier releases would not see it.
			return fmt.Errorf("index: chunkSize %d: want chunks of %d", p.ChunkSize, ChunkSize)
		}
		if err := p.check(ix.Pack.Size); err != nil {
			return fmt.Errorf("index: %s.%w", [...]string{"root", "verity", "uki"}[i], err)
		}
	}

	return nil
}

func (ix Index) checkHead() error {
	if _, err := Base(ix.ImageID, ix.Version, ix.Arch); err != nil {
		return err
	}

	if ix.Profile == "" || len(ix.Profile) > 32 ||
		strings.Trim(ix.Profile, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("profile %.40q: want up to 32 of a-z 0-9 -", ix.Profile)
	}

	if ix.Epoch < 0 {
		return fmt.Errorf("epoch %d: negative", ix.Epoch)
	}
	if _, err := parseDigest(ix.RootHash); err != nil {
		return fmt.Errorf("rootHash: %w", err)
	}

	if s := ix.Signature; s != nil {
		if s.RootHash != ix.RootHash {
			return fmt.Errorf("signature: of root hash %.80q", s.RootHash)
		}
		if _, err := s.Encode(); err != nil {
			return err
		}
	}

	for i, key := range ix.PCRKeys {
		if _, err := parseDigest(key); err != nil {
			return fmt.Errorf("pcrKeys[%d]: %w", i, err)
		}
	}

	if ix.Authenticode == nil {
		return nil
	}

	return checkAuthenticode(*ix.Authenticode)
}

func checkAuthenticode(im authenticode.Image) error {
	if _, err := parseDigest(im.SHA256); err != nil {
		return fmt.Errorf("authenticode.sha256: %w", err)
	}

	for i, signature := range im.Signatures {
		if len(signature) == 0 {
			return fmt.Errorf("authenticode.signatures[%d]: no certificate", i)
		}
		for j, der := range signature {
			if _, err := x509.ParseCertificate(der); err != nil {
				return fmt.Errorf("authenticode.signatures[%d][%d]: %w", i, j, err)
			}
		}
	}

	return nil
}

func (ix Index) checkPack() error {
	base, err := Base(ix.ImageID, ix.Version, ix.Arch)
	if err != nil {
		return err
	}
	return ix.Pack.check(base)
}

// check returns the faults of a pack whose files begin with base.
func (p Pack) check(base string) error {
	if want := base + ".pack"; p.Name != want {
		return fmt.Errorf("pack.name %.60q: want %s", p.Name, want)
	}
	if p.Size < 0 || p.Size > 3*maxPart {
		return fmt.Errorf("pack.size %d: out of range", p.Size)
	}
	if _, err := parseDigest(p.SHA256); err != nil {
		return fmt.Errorf("pack.sha256: %w", err)
	}
	return nil
}

func (p Part) check(pack int64) error {
	if p.Size <= 0 || p.Size > maxPart {
		return fmt.Errorf("size %d: out of range", p.Size)
	}
	if _, err := parseDigest(p.SHA256); err != nil {
		return fmt.Errorf("sha256: %w", err)
	}
	if n := p.ChunkSize; n < 0 || n > MaxChunkSize || (n > 0 && MaxChunkSize%n != 0) {
		return fmt.Errorf("chunkSize %d: want a divisor of %d", n, MaxChunkSize)
	}
	if n := int64(len(p.Chunks)); n != p.count() {
		return fmt.Errorf("chunks: %d, want %d for %d bytes", n, p.count(), p.Size)
	}

	zeros := sha256.Sum256(make([]byte, p.ChunkLen()))
	for i, c := range p.Chunks {
		plain := p.PlainLen(i)
		if int64(plain) < p.ChunkLen() {
			zeros = sha256.Sum256(make([]byte, plain))
		}
		if err := c.check(int64(plain), pack, zeros); err != nil {
			return fmt.Errorf("chunks[%d]: %w", i, err)
		}
	}

	return nil
}

func (c Chunk) check(plain, pack int64, zeros Digest) error {
	switch {
	case c.Len < 0 || c.Len > plain:
		return fmt.Errorf("len %d: want 0 to %d", c.Len, plain)
	case c.At < 0 || c.At > pack-c.Len:
		return fmt.Errorf("bytes %d+%d: not in the pack of %d", c.At, c.Len, pack)
	case c.Len == 0 && c.At != 0:
		return fmt.Errorf("at %d: want 0 for a chunk that the pack does not have", c.At)
	case (c.Len == 0) != bytes.Equal(c.SHA256[:], zeros[:]):
		return fmt.Errorf("len %d and digest %s: len 0 is for zeros, and only for them",
			c.Len, c.SHA256)
	}
	return nil
}
