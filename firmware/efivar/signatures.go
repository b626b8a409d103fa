package efivar

import (
	"encoding/binary"
	"fmt"

	"github.com/loam-os/loam/partitions/gpt"
)

// Type says what a Signature is (UEFI 32.4.1).
type Type string

// Types of signatures that Loam knows. Other types are kept as their UUID.
const (
	// X509 is a certificate, DER.
	X509 Type = "a5c059a1-94e4-4aa7-87b5-ab155c2bf072"
	// SHA256 is the Authenticode digest of an image, 32 bytes.
	SHA256 Type = "c1c41626-504c-4092-aca9-41f936934328"
	// X509SHA256 and so on are a digest of the signed part of a certificate,
	// then 16 bytes of EFI_TIME: since when it is revoked.
	X509SHA256 Type = "3bd2a492-96c0-4079-b420-fcf98ef103ed"
	X509SHA384 Type = "7076876e-80c2-4ee6-aad2-28b349a6865b"
	X509SHA512 Type = "446dbf63-2502-4cda-bcfa-2465d2b0fe9d"
)

// Signature is one EFI_SIGNATURE_DATA, without its owner.
type Signature struct {
	Type Type
	Data []byte
}

const (
	listHeader = 28 // type UUID, sizes of list, header and signature
	owner      = 16
)

// ParseSignatures parses the value of db or dbx: EFI_SIGNATURE_LISTs, one after
// the other (UEFI 32.4.1).
func ParseSignatures(b []byte) ([]Signature, error) {
	var all []Signature
	for at := 0; at < len(b); {
		rest := b[at:]
		if len(rest) < listHeader {
			return nil, fmt.Errorf("signature list at byte %d: %d bytes, its header takes %d",
				at, len(rest), listHeader)
		}

		kind := Type(gpt.GUID(rest).String())
		size, header, each := sizes(rest)
		switch body := size - listHeader - header; {
		case size > int64(len(rest)):
			return nil, fmt.Errorf("signature list at byte %d: %d bytes of %d", at, len(rest), size)
		case body < 0:
			return nil, fmt.Errorf("signature list at byte %d: %d bytes, its headers take %d",
				at, size, listHeader+header)
		case body == 0:
		case each <= owner || body%each != 0:
			return nil, fmt.Errorf(
				"signature list at byte %d: %d bytes of signatures that are %d each",
				at, body, each,
			)
		case fixed(kind) != 0 && each != owner+fixed(kind):
			return nil, fmt.Errorf(
				"signature list at byte %d: signatures of %d bytes, type %s has %d",
				at, each, kind, owner+fixed(kind),
			)
		}

		for off := listHeader + header; off < size; off += each {
			all = append(all, Signature{Type: kind, Data: rest[off+owner : off+each]})
		}

		at += int(size)
	}

	return all, nil
}

// sizes are the sizes of a list, of its second header, and of each signature
// with its owner.
func sizes(list []byte) (size, header, each int64) {
	le := binary.LittleEndian
	return int64(le.Uint32(list[16:])), int64(le.Uint32(list[20:])), int64(le.Uint32(list[24:]))
}

// fixed returns the size in bytes of a signature of the type, 0 if it varies.
func fixed(t Type) int64 {
	switch t {
	case SHA256:
		return 32
	case X509SHA256:
		return 32 + 16
	case X509SHA384:
		return 48 + 16
	case X509SHA512:
		return 64 + 16
	}
	return 0
}
