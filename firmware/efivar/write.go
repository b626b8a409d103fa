package efivar

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
)

// Attributes of variables (UEFI 2.10, 8.2.1).
const (
	NonVolatile       = 1
	BootServiceAccess = 2
	RuntimeAccess     = 4
)

// Write sets a variable of the firmware and reads it back, because some
// firmware accepts a value and does not keep it. sys is the directory of sysfs.
// A variable that has the value is not written: the memory of variables wears
// out.
func Write(sys, name, vendor string, value []byte) error {
	if have, err := Read(os.DirFS(sys), name, vendor); err == nil && bytes.Equal(have, value) {
		return nil
	}

	b := binary.LittleEndian.AppendUint32(nil, NonVolatile|BootServiceAccess|RuntimeAccess)
	err := os.WriteFile(filepath.Join(sys, Dir, name+"-"+vendor), append(b, value...), 0o644)
	if err != nil {
		return fmt.Errorf("EFI variable %s: %w", name, err)
	}

	if have, err := Read(os.DirFS(sys), name, vendor); err != nil || !bytes.Equal(have, value) {
		return fmt.Errorf("EFI variable %s: the firmware does not keep what is written to it (%v)",
			name, err)
	}

	return nil
}
