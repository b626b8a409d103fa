package build

import (
	"bytes"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/firmware/device"
	"github.com/loam-os/loam/image/initramfs"
)

// microcodes are where the kernel looks in its first initramfs, and what of a
// root tree belongs there. Each holds updates for all processors of its maker,
// one after the other (Documentation/arch/x86/microcode.rst).
var microcodes = []struct{ name, files string }{
	{"AuthenticAMD.bin", "amd-ucode/*.bin"},
	{"GenuineIntel.bin", "intel-ucode/*"},
}

// packMicrocode makes the archive that the stub puts before the initramfs: not
// compressed, as the kernel reads it before it can unpack anything. It is nil
// for a tree without microcode.
func packMicrocode(tree string) ([]byte, error) {
	var entries []initramfs.Entry
	for _, m := range microcodes {
		files, err := filepath.Glob(filepath.Join(tree, device.Dir, m.files)) // sorted
		if err != nil || len(files) == 0 {
			continue
		}

		e := initramfs.Entry{Path: "kernel/x86/microcode/" + m.name, Mode: 0o444}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				return nil, err
			}
			e.Data = append(e.Data, text...)
		}

		entries = append(entries, e)
	}

	if entries == nil {
		return nil, nil
	}

	var b bytes.Buffer
	err := initramfs.Write(&b, entries)
	return b.Bytes(), err
}
