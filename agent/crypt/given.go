package crypt

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/partitions/fat"
)

// The places where an operator gives a key to the machine.
const (
	CredentialName = "loam.state-key"
	FileName       = "loam-state.key"
)

// maxKey is the most bytes of a key, which is what cryptsetup reads of a
// passphrase.
const maxKey = 512

// smbios is where the kernel shows the tables of the firmware (Linux,
// Documentation/ABI/testing/sysfs-firmware-dmi-tables).
const smbios = "sys/firmware/dmi/tables/DMI"

// FindGiven lists the keys that are on the machine: in the credential of the
// firmware, and on its disks but the disk of the system, except.
func FindGiven(except string) []Given {
	root := os.DirFS("/")
	var found []Given
	tables, err := fs.ReadFile(root, smbios)
	if key := trim(credential(tables, CredentialName)); err == nil && len(key) > 0 {
		found = append(found, Given{"credential " + CredentialName, key})
	}

	disks, err := block.List(root, notDrives...)
	if err != nil {
		return found
	}
	for _, d := range disks {
		if block.Node(d.Name) == except || d.Network != "" {
			continue
		}
		nodes := []string{block.Node(d.Name)}
		for _, node := range block.Partitions(filepath.Join("/sys/block", d.Name)) {
			nodes = append(nodes, node)
		}
		for _, node := range nodes {
			if key := keyOn(node); len(key) > 0 {
				found = append(found, Given{FileName + " of " + node, key})
			}
		}
	}
	return found
}

// notDrives are the kinds of devices that no operator plugs in.
var notDrives = []block.Kind{
	block.RAM,
	block.ZRAM,
	block.Loop,
	block.Mapped,
	block.RAID,
	block.Bcache,
	block.ZVol,
	block.NBD,
	block.RBD,
	block.DRBD,
	block.Optical,
	block.Floppy,
}

// keyOn returns the key in the file on a device, nil if it is absent.
func keyOn(node string) []byte {
	f, err := os.Open(node)
	if err != nil {
		return nil
	}
	defer f.Close()

	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	key, err := readKey(f, size)
	if err != nil {
		return nil
	}
	return key
}

// readKey reads the file of a FAT32 file system.
func readKey(f *os.File, size int64) ([]byte, error) {
	const blockSize = 512 // for reads only, which the kernel aligns
	files, err := fat.Open(f, size, blockSize)
	if err != nil {
		return nil, err
	}
	r, err := files.Open(FileName)
	if err != nil {
		return nil, err
	}
	key, err := io.ReadAll(io.LimitReader(r, maxKey+1))
	if err == nil && len(key) > maxKey {
		err = fmt.Errorf("%s: more than %d bytes", FileName, maxKey)
	}
	return trim(key), err
}

// trim removes the end of the line, which editors add.
func trim(key []byte) []byte { return bytes.TrimRight(key, "\r\n") }

// credential returns a systemd credential of the firmware's tables: an OEM
// string of SMBIOS (systemd.system-credentials(7); SMBIOS 3.7, sections 6.1 and
// 7.12).
func credential(tables []byte, name string) []byte {
	const oemStrings = 11
	for len(tables) >= 4 && int(tables[1]) >= 4 && int(tables[1]) <= len(tables) {
		kind := tables[0]
		tables = tables[tables[1]:]
		strings, rest, ok := bytes.Cut(tables, []byte{0, 0})
		if !ok {
			return nil
		}
		tables = rest
		if kind != oemStrings {
			continue
		}

		for text := range bytes.SplitSeq(strings, []byte{0}) {
			if value, ok := bytes.CutPrefix(text, []byte("io.systemd.credential:"+name+"=")); ok {
				return value
			}
			value, ok := bytes.CutPrefix(text, []byte("io.systemd.credential.binary:"+name+"="))
			if !ok {
				continue
			}
			if key, err := base64.StdEncoding.DecodeString(string(value)); err == nil {
				return key
			}
		}
	}
	return nil
}
