package authenticode

import (
	"bytes"
	"encoding/asn1"
	"encoding/binary"
	"fmt"

	"github.com/loam-os/loam/firmware/pkcs7"
)

// Sign returns a signature of an EFI image; Attach makes it part of the image.
// Signatures that the image has already are left out. Signing again gives the
// same bytes.
func Sign(image []byte, by pkcs7.Signer) ([]byte, error) {
	image, l, err := strip(image)
	if err != nil {
		return nil, err
	}

	sum, err := l.digest(bytes.NewReader(image))
	if err != nil {
		return nil, fmt.Errorf("EFI image: %w", err)
	}

	content, err := about(sum)
	if err != nil {
		return nil, err
	}

	signed, err := by.Attached(oidIndirectData, content)
	if err != nil {
		return nil, err
	}

	return pkcs7.Wrap(signed)
}

// Attach returns the image with this signature, which replaces all signatures
// that the image has. The signature must be over the image.
func Attach(image, signature []byte) ([]byte, error) {
	image, l, err := strip(image)
	if err != nil {
		return nil, err
	}

	entry := binary.LittleEndian.AppendUint32(nil, uint32(header+len(signature)))
	entry = binary.LittleEndian.AppendUint16(entry, 0x0200) // WIN_CERT_REVISION_2_0
	entry = binary.LittleEndian.AppendUint16(entry, pkcsSignedData)
	entry = pad(append(entry, signature...))
	binary.LittleEndian.PutUint32(image[l.security:], uint32(len(image)))
	binary.LittleEndian.PutUint32(image[l.security+4:], uint32(len(entry)))
	image = append(image, entry...)
	_, err = Read(bytes.NewReader(image), int64(len(image)))

	return image, err
}

// Strip returns an image without its signatures. It is as it was before it was
// signed, except for its checksum, which may be 0, and up to 7 zeros at its end.
func Strip(image []byte) ([]byte, error) {
	image, _, err := strip(image)
	return image, err
}

func strip(image []byte) ([]byte, layout, error) {
	l, err := parse(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		return nil, l, fmt.Errorf("EFI image: %w", err)
	}

	// The table begins at a multiple of 8; what fills that up is in the digest.
	image = pad(bytes.Clone(image[:l.table0]))
	clear(image[l.checksum : l.checksum+4])
	clear(image[l.security : l.security+8])
	l.table0 = int64(len(image))
	l.end = int64(len(image))

	return image, l, nil
}

func pad(b []byte) []byte { return append(b, make([]byte, -len(b)&7)...) }

var oidImageData = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 1, 15}

// obsolete is the SpcLink to a file that an SpcPeImageData has to have: [0] [2]
// [0] of a BMPString.
const obsolete = "\xa0\x20\xa2\x1e\x80\x1c\x00<\x00<\x00<\x00O\x00b\x00s\x00o\x00l\x00e\x00t\x00e\x00>\x00>\x00>"

// about returns the SpcIndirectDataContent of an image with this digest.
func about(digest []byte) ([]byte, error) {
	var data struct {
		Type  asn1.ObjectIdentifier
		Value struct {
			Flags asn1.BitString
			File  asn1.RawValue
		}
	}

	data.Type = oidImageData
	data.Value.File.FullBytes = []byte(obsolete)
	content := indirectData{Data: data}
	content.Digest.Algorithm = pkcs7.SHA256
	content.Digest.Sum = digest

	return asn1.Marshal(content)
}
