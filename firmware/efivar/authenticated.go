package efivar

import (
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
	"unicode/utf16"

	"github.com/google/uuid"

	"github.com/loam-os/loam/firmware/pkcs7"
	"github.com/loam-os/loam/partitions/gpt"
)

// Certificates returns the value of PK, KEK or db with these certificates. Each
// is in an EFI_SIGNATURE_LIST of its own, because they differ in length.
func Certificates(of uuid.UUID, certificates ...*x509.Certificate) []byte {
	le := binary.LittleEndian
	var b []byte
	for _, c := range certificates {
		each := owner + len(c.Raw)
		b = append(b, guid(uuid.MustParse(string(X509)))...)
		for _, n := range []int{listHeader + each, 0, each} {
			b = le.AppendUint32(b, uint32(n))
		}
		b = append(append(b, guid(of)...), c.Raw...)
	}
	return b
}

const (
	// attributes of PK, KEK and db: non-volatile, for boot and runtime,
	// authenticated by time (UEFI 8.2).
	attributes = 0x27
	// timeSize is the size of an EFI_TIME, certHeader of a
	// WIN_CERTIFICATE_UEFI_GUID without its data.
	timeSize   = 16
	certHeader = 24
)

// pkcs7GUID is EFI_CERT_TYPE_PKCS7_GUID (UEFI 8.2.2).
const pkcs7GUID = "4aafd29d-68df-49ee-8aa9-347d375665a7"

// Authenticate returns the bytes that set an authenticated variable: an
// EFI_VARIABLE_AUTHENTICATION_2 and the value (UEFI 8.2.2). Firmware accepts
// them only if their time is later than the time of the current value.
func Authenticate(
	name, vendor string, value []byte, at time.Time, by pkcs7.Signer,
) ([]byte, error) {
	le := binary.LittleEndian
	stamp := le.AppendUint16(nil, uint16(at.UTC().Year()))
	for _, n := range []int{
		int(at.UTC().Month()), at.UTC().Day(), at.UTC().Hour(), at.UTC().Minute(),
		at.UTC().Second(),
	} {
		stamp = append(stamp, byte(n))
	}

	stamp = append(stamp, make([]byte, timeSize-len(stamp))...)
	var wide []byte
	for _, u := range utf16.Encode([]rune(name)) {
		wide = le.AppendUint16(wide, u)
	}

	id, err := uuid.Parse(vendor)
	if err != nil {
		return nil, fmt.Errorf("EFI variable %s: vendor: %w", name, err)
	}

	signed, err := by.Detached(
		slices.Concat(wide, guid(id), le.AppendUint32(nil, attributes), stamp, value),
		by.Certificate,
	)
	if err != nil {
		return nil, fmt.Errorf("EFI variable %s: %w", name, err)
	}

	head := le.AppendUint32(stamp, uint32(certHeader+len(signed)))
	head = le.AppendUint16(head, 0x0200) // WIN_CERT_REVISION_2_0
	head = le.AppendUint16(head, 0x0ef1) // WIN_CERT_TYPE_EFI_GUID

	return slices.Concat(head, guid(uuid.MustParse(pkcs7GUID)), signed, value), nil
}

// ParseAuthenticated returns the signatures in the result of Authenticate. It
// does not check who has signed it.
func ParseAuthenticated(b []byte) ([]Signature, error) {
	if len(b) < timeSize+certHeader {
		return nil, fmt.Errorf("authenticated variable: %d bytes", len(b))
	}
	n := int64(binary.LittleEndian.Uint32(b[timeSize:]))
	if n < certHeader || n > int64(len(b)-timeSize) {
		return nil, fmt.Errorf("authenticated variable: a signature of %d bytes in %d", n, len(b))
	}
	return ParseSignatures(b[timeSize+n:])
}

// guid is a UUID as UEFI writes it.
func guid(u uuid.UUID) []byte {
	b := make([]byte, len(u))
	gpt.PutGUID(b, u)
	return b
}
