package firmware

import (
	"encoding/binary"
	"testing/fstest"

	"github.com/google/uuid"
)

// SignatureList is an EFI_SIGNATURE_LIST (UEFI 32.4.1) of signatures that are all of one type, a UUID, and of one length.
func SignatureList(kind string, signatures ...string) []byte {
	const header, owner = 28, "whoever it may be"
	id := uuid.MustParse(kind)
	b := append([]byte{id[3], id[2], id[1], id[0], id[5], id[4], id[7], id[6]}, id[8:]...)
	each := 16 + len(append(signatures, "")[0])
	for _, n := range []int{header + len(signatures)*each, 0, each} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	for _, s := range signatures {
		b = append(append(b, owner[:16]...), s...)
	}
	return b
}

// SecureBoot is sysfs of a machine with Secure Boot on.
func SecureBoot(db, dbx []byte) fstest.MapFS {
	variable := func(value []byte) *fstest.MapFile { return &fstest.MapFile{Data: append([]byte{7, 0, 0, 0}, value...)} }
	return fstest.MapFS{
		"firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c": variable([]byte{1}),
		"firmware/efi/efivars/db-d719b2cb-3d3a-4596-a3bc-dad00e67656f":         variable(db),
		"firmware/efi/efivars/dbx-d719b2cb-3d3a-4596-a3bc-dad00e67656f":        variable(dbx),
	}
}
