package firmware

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"os"
	"slices"
	"testing"
	"testing/fstest"
	"unicode/utf16"

	"github.com/google/uuid"

	"github.com/loam-os/loam/firmware/authenticode"
)

// SignatureList is an EFI_SIGNATURE_LIST (UEFI 32.4.1) of signatures that are
// all of one type, a UUID, and of one length.
func SignatureList(kind string, signatures ...string) []byte {
	const header, owner = 28, "whoever it may be"
	b := guid(kind)
	each := 16 + len(append(signatures, "")[0])
	for _, n := range []int{header + len(signatures)*each, 0, each} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}

	for _, s := range signatures {
		b = append(append(b, owner[:16]...), s...)
	}

	return b
}

// sha256List is EFI_CERT_SHA256_GUID (UEFI 32.4.1).
const sha256List = "c1c41626-504c-4092-aca9-41f936934328"

// Digest is a list of the Authenticode digest of an image.
func Digest(t testing.TB, image []byte) []byte {
	t.Helper()
	im, err := authenticode.Read(bytes.NewReader(image), int64(len(image)))
	if err != nil {
		t.Fatal(err)
	}

	sum, err := hex.DecodeString(im.SHA256)
	if err != nil {
		t.Fatal(err)
	}

	return SignatureList(sha256List, string(sum))
}

// Image reads the part of a file of this repository that the firmware judges.
func Image(t testing.TB, file string) authenticode.Image {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}

	im, err := authenticode.Read(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}

	return im
}

// guid is a UUID as UEFI writes it.
func guid(text string) []byte {
	id := uuid.MustParse(text)
	return append([]byte{id[3], id[2], id[1], id[0], id[5], id[4], id[7], id[6]}, id[8:]...)
}

// Vendors of variables.
const (
	global        = "8be4df61-93ca-11d2-aa0d-00e098032b8c"
	imageSecurity = "d719b2cb-3d3a-4596-a3bc-dad00e67656f"
)

// SecureBoot is sysfs of a machine with Secure Boot on.
func SecureBoot(db, dbx []byte) fstest.MapFS {
	variable := func(value []byte) *fstest.MapFile {
		return &fstest.MapFile{Data: append([]byte{7, 0, 0, 0}, value...)}
	}
	return fstest.MapFS{
		"firmware/efi/efivars/SecureBoot-" + global: variable([]byte{1}),
		"firmware/efi/efivars/db-" + imageSecurity:  variable(db),
		"firmware/efi/efivars/dbx-" + imageSecurity: variable(dbx),
	}
}

// Enroll switches Secure Boot on in an empty store of OVMF's variables. Each
// argument is lists of signatures; owner, for PK and KEK, has one certificate.
func Enroll(store, owner, db, dbx []byte) {
	at := 0x48 + 28 // after the headers of volume and store
	for _, v := range []struct {
		name, vendor string
		value        []byte
	}{
		{"PK", global, owner},
		{"KEK", global, owner},
		{"db", imageSecurity, db},
		{"dbx", imageSecurity, dbx},
	} {
		if len(v.value) > 0 {
			at += (copy(store[at:], variable(v.name, v.vendor, v.value)) + 3) &^ 3
		}
	}
}

// variable is one as OVMF stores it (EDK2's AuthenticatedVariableFormat.h).
func variable(name, vendor string, value []byte) []byte {
	le := binary.LittleEndian
	var wide []byte
	for _, u := range append(utf16.Encode([]rune(name)), 0) {
		wide = le.AppendUint16(wide, u)
	}

	h := make([]byte, 44)
	le.PutUint16(h, 0x55aa)
	h[2] = 0x3f               // it is there
	le.PutUint32(h[4:], 0x27) // non-volatile, for boot and runtime, authenticated by time
	le.PutUint32(h[36:], uint32(len(wide)))
	le.PutUint32(h[40:], uint32(len(value)))

	return slices.Concat(h, guid(vendor), wide, value)
}
