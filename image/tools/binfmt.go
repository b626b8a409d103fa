package tools

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// binfmtMisc is where the kernel lists the programs that run other
// architectures' programs (Documentation/admin-guide/binfmt-misc.rst).
const binfmtMisc = "/proc/sys/fs/binfmt_misc"

// machines are the ELF machines of architectures, and QEMU's names for them.
var machines = map[string]struct {
	elf  elf.Machine
	qemu string
}{
	"amd64": {elf.EM_X86_64, "x86_64"},
	"arm64": {elf.EM_AARCH64, "aarch64"},
}

// Emulate makes this machine run programs of arch, which is another
// architecture. If it cannot yet, Emulate registers the tree's emulator with
// the kernel until the next boot: the kernel keeps the file open, so that it
// serves in every chroot and mount namespace. Emulate returns the name of the
// emulator.
func (t Tree) Emulate(arch string) (interpreter string, err error) {
	if err := mountBinfmt(); err != nil {
		return "", fmt.Errorf("mount %s: %w", binfmtMisc, err)
	}

	entries, err := readBinfmt()
	if err != nil {
		return "", err
	}

	for _, e := range entries {
		if e.runs(arch) {
			return e.interpreter, nil
		}
	}

	interpreter = filepath.Join(t.Dir, "usr/bin/qemu-"+machines[arch].qemu)
	if _, err := os.Stat(interpreter); err != nil {
		return "", fmt.Errorf("emulator for %s: %w", arch, err)
	}

	err = os.WriteFile(filepath.Join(binfmtMisc, "register"),
		[]byte(binfmtRule(arch, interpreter)), 0)
	if err != nil {
		return "", fmt.Errorf("register %s: %w", interpreter, err)
	}

	return interpreter, nil
}

// mountBinfmt mounts binfmtMisc unless it is; systemd does it on access.
func mountBinfmt() error {
	_, err := os.Stat(filepath.Join(binfmtMisc, "register"))
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return unix.Mount("binfmt_misc", binfmtMisc, "binfmt_misc",
		unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
}

// readBinfmt reads the kernel's list.
func readBinfmt() ([]binfmt, error) {
	files, err := os.ReadDir(binfmtMisc)
	if err != nil {
		return nil, err
	}

	var entries []binfmt
	for _, f := range files {
		if f.Name() == "register" || f.Name() == "status" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(binfmtMisc, f.Name()))
		if err != nil {
			return nil, err
		}
		entries = append(entries, parseBinfmt(string(text)))
	}

	return entries, nil
}

// binfmt is an entry of the kernel's list.
type binfmt struct {
	enabled            bool
	interpreter, flags string
	offset             string
	magic, mask        []byte
}

// parseBinfmt reads an entry as the kernel shows it (entry_status in
// fs/binfmt_misc.c). One that looks otherwise runs nothing of ours.
func parseBinfmt(text string) binfmt {
	var e binfmt
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch key {
		case "enabled":
			e.enabled = true
		case "interpreter":
			e.interpreter = value
		case "flags:":
			e.flags = value
		case "offset":
			e.offset = value
		case "magic":
			e.magic, _ = hex.DecodeString(value)
		case "mask":
			e.mask, _ = hex.DecodeString(value)
		}
	}

	return e
}

// runs reports whether the entry runs programs of arch in a chroot too: flag F.
func (e binfmt) runs(arch string) bool {
	header, _ := elfHeader(arch)
	if !e.enabled || !strings.Contains(e.flags, "F") || e.offset != "0" || len(e.magic) == 0 ||
		len(e.magic) > len(header) {
		return false
	}

	for i, b := range e.magic {
		care := byte(0xff)
		if i < len(e.mask) {
			care = e.mask[i]
		}
		if (b^header[i])&care != 0 {
			return false
		}
	}

	return true
}

// binfmtRule is what registers interpreter for arch. Flag F opens it now, P
// passes it the name that the program was called by.
func binfmtRule(arch, interpreter string) string {
	header, mask := elfHeader(arch)
	return fmt.Sprintf(":loam-%s:M:0:%s:%s:%s:PF", arch, escape(header), escape(mask), interpreter)
}

// elfHeader is how programs of arch begin, up to e_machine, and the bits that
// tell (elf(5)): any ABI, any padding, and e_type 2 or 3, fixed or relocatable.
func elfHeader(arch string) (header, mask []byte) {
	header = append([]byte(elf.ELFMAG), byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB),
		byte(elf.EV_CURRENT))
	mask = append(bytes.Repeat([]byte{0xff}, len(header)),
		make([]byte, elf.EI_NIDENT-len(header))...)
	header = append(header, make([]byte, elf.EI_NIDENT-len(header))...)
	header = binary.LittleEndian.AppendUint16(header, uint16(elf.ET_EXEC))
	header = binary.LittleEndian.AppendUint16(header, uint16(machines[arch].elf))

	return header, append(mask, 0xfe, 0xff, 0xff, 0xff)
}

func escape(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		fmt.Fprintf(&s, `\x%02x`, c)
	}
	return s.String()
}
