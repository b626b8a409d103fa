package authenticode

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/binary"
	"fmt"

	"github.com/loam-os/loam/firmware/pkcs7"
)

// Sign is the signature of an EFI image: Attach makes it part of the image. It is over the image without the signatures that it has, and the
// same whenever it is made.
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

// Attach is an image with one signature, in place of those that it has. It must be over the image.
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

// Strip is an image without signatures: as it was before, but for its checksum, which may be none, and up to 7 zeros at its end.
func Strip(image []byte) ([]byte, error) {
	image, _, err := strip(image)
	return image, err
}

func strip(image []byte) ([]byte, layout, error) {
	l, err := parse(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		return nil, l, fmt.Errorf("EFI image: %w", err)
	}
	image = pad(bytes.Clone(image[:l.table0])) // The table begins at a multiple of 8; what fills that up is in the digest.
	clear(image[l.checksum : l.checksum+4])
	clear(image[l.security : l.security+8])
	l.table0, l.end = int64(len(image)), int64(len(image))
	return image, l, nil
}

func pad(b []byte) []byte { return append(b, make([]byte, -len(b)&7)...) }

var oidImageData = asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 311, 2, 1, 15}

// about is the SpcIndirectDataContent of an image of the digest. Its SpcPeImageData says what the specification wants it to say.
func about(digest []byte) ([]byte, error) {
	type imageData struct {
		Flags asn1.BitString
		File  asn1.RawValue
	}
	var content struct {
		Data struct {
			Type  asn1.ObjectIdentifier
			Value imageData
		}
		Digest struct {
			Algorithm pkix.AlgorithmIdentifier
			Sum       []byte
		}
	}
	var obsolete []byte // BMPString
	for _, r := range "<<<Obsolete>>>" {
		obsolete = append(obsolete, 0, byte(r))
	}
	text, err := asn1.Marshal(asn1.RawValue{Class: asn1.ClassContextSpecific, Tag: 0, Bytes: obsolete})
	if err != nil {
		return nil, err
	}
	file, err := asn1.Marshal(pkcs7.Tagged(2, text))
	if err != nil {
		return nil, err
	}
	content.Data.Type, content.Data.Value.File = oidImageData, pkcs7.Tagged(0, file)
	content.Digest.Algorithm, content.Digest.Sum = pkix.AlgorithmIdentifier{Algorithm: oidSHA256, Parameters: asn1.NullRawValue}, digest[:sha256.Size]
	return asn1.Marshal(content)
}
