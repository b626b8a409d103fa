// Package authenticode signs EFI images, and reads who has signed them and which
// digest is signed (Microsoft's "Windows Authenticode Portable Executable
// Signature Format", to which UEFI 32.2.4 refers).
package authenticode

import (
	"encoding/hex"
	"fmt"
	"io"
	"os"
)

// Image is the part of an EFI image that Secure Boot looks at.
type Image struct {
	// SHA256 is the Authenticode digest, 64 hex digits: of the file but for its
	// checksum and its signatures.
	SHA256 string `json:"sha256"`
	// Signatures of the image, each as certificates (DER): the signer's, then
	// its chain up to the root.
	Signatures [][][]byte `json:"signatures,omitempty"`
}

// Read reads an image of size bytes. It is an error if a signature, whoever made
// it, is not over this image.
func Read(r io.ReaderAt, size int64) (Image, error) {
	l, err := parse(r, size)
	if err != nil {
		return Image{}, fmt.Errorf("EFI image: %w", err)
	}

	sum, err := l.digest(r)
	if err != nil {
		return Image{}, fmt.Errorf("EFI image: %w", err)
	}

	table, err := l.table(r)
	if err != nil {
		return Image{}, fmt.Errorf("EFI image: table of signatures: %w", err)
	}

	im := Image{SHA256: hex.EncodeToString(sum)}
	for i, signed := range table {
		chain, err := verify(signed, sum)
		if err != nil {
			return Image{}, fmt.Errorf("EFI image: signature %d: %w", i+1, err)
		}
		im.Signatures = append(im.Signatures, chain)
	}

	return im, nil
}

// ReadFile reads an image from a file.
func ReadFile(name string) (*Image, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		return nil, err
	}

	im, err := Read(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	return &im, nil
}
