// Package efivar reads variables of UEFI firmware from efivarfs
// (Documentation/filesystems/efivarfs.rst).
package efivar

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"strings"
	"unicode/utf16"
)

// Dir is the directory of efivarfs in sysfs.
const Dir = "firmware/efi/efivars"

// Vendors of variables, as in the names of their files.
const (
	Global        = "8be4df61-93ca-11d2-aa0d-00e098032b8c" // UEFI 3.3: SecureBoot
	ImageSecurity = "d719b2cb-3d3a-4596-a3bc-dad00e67656f" // UEFI 32.6.1: db, dbx
	Loader        = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f" // Boot Loader Interface
	Shim          = "605dab50-e046-4300-abb6-3dd810dd8b23" // shim's MokVars.txt
)

// Read returns the value of a variable. sys is sysfs. If the variable is absent,
// as all are on a machine without UEFI, the error is fs.ErrNotExist.
func Read(sys fs.FS, name, vendor string) ([]byte, error) {
	b, err := fs.ReadFile(sys, Dir+"/"+name+"-"+vendor)
	if err != nil {
		return nil, fmt.Errorf("EFI variable %s: %w", name, err)
	}
	if len(b) < 4 {
		return nil, fmt.Errorf("EFI variable %s: %d bytes, fewer than its attributes", name, len(b))
	}
	return b[4:], nil
}

// Text decodes a value that is text: UTF-16, ended by a zero.
func Text(value []byte) string {
	var units []uint16
	for ; len(value) >= 2; value = value[2:] {
		units = append(units, binary.LittleEndian.Uint16(value))
	}
	return strings.TrimRight(string(utf16.Decode(units)), "\x00")
}
