// Package loadoption makes and reads the entries of the firmware's own boot
// menu: EFI_LOAD_OPTION (UEFI 2.10, 3.1.3) in the variables Boot####.
package loadoption

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/google/uuid"

	"github.com/loam-os/loam/partitions/gpt"
)

// Option starts a program of a partition of a disk with a GPT.
type Option struct {
	Description string

	// Partition is its number, Start and Size are in sectors of the disk, ID is
	// its UUID.
	Partition   uint32
	Start, Size uint64
	ID          uuid.UUID

	// Path is from the root of its file system, with slashes.
	Path string
}

// Encode makes the value of a variable: an active entry.
func (o Option) Encode() []byte {
	path := slices.Concat(o.hardDrive(), o.filePath(), end)
	const active = 1
	b := binary.LittleEndian.AppendUint32(nil, active)
	b = binary.LittleEndian.AppendUint16(b, uint16(len(path)))
	return slices.Concat(b, text(o.Description), path)
}

// end is the node that ends a device path (UEFI 2.10, 10.3.1).
var end = []byte{0x7f, 0xff, 4, 0}

// hardDrive is the short form of the path to a partition, which firmware
// completes wherever the disk is (10.3.5.1).
func (o Option) hardDrive() []byte {
	le := binary.LittleEndian
	b := []byte{4, 1, 42, 0}
	b = le.AppendUint32(b, o.Partition)
	b = le.AppendUint64(b, o.Start)
	b = le.AppendUint64(b, o.Size)
	b = append(b, guid(o.ID)...)

	return append(b, 2, 2) // a GPT, and a GUID as signature
}

// filePath returns the node of a file (10.3.5.4).
func (o Option) filePath() []byte {
	name := text(`\` + strings.ReplaceAll(o.Path, "/", `\`))
	return append(binary.LittleEndian.AppendUint16([]byte{4, 4}, uint16(4+len(name))), name...)
}

// text encodes text as UTF-16 with a zero at the end.
func text(s string) (b []byte) {
	for _, unit := range append(utf16.Encode([]rune(s)), 0) {
		b = binary.LittleEndian.AppendUint16(b, unit)
	}
	return b
}

// guid encodes a UUID (UEFI 2.10, appendix A).
func guid(u uuid.UUID) []byte {
	b := make([]byte, 16)
	gpt.PutGUID(b, u)
	return b
}

// Name returns the name of the variable for the option with a number.
func Name(number uint16) string { return fmt.Sprintf("Boot%04X", number) }

// ParseOrder reads the value of BootOrder, EncodeOrder makes one; BootNext is
// an order of one.
func ParseOrder(value []byte) (numbers []uint16) {
	for ; len(value) >= 2; value = value[2:] {
		numbers = append(numbers, binary.LittleEndian.Uint16(value))
	}
	return numbers
}

// EncodeOrder is the reverse of ParseOrder.
func EncodeOrder(numbers ...uint16) (value []byte) {
	for _, n := range numbers {
		value = binary.LittleEndian.AppendUint16(value, n)
	}
	return value
}

// Place returns the number for an option: the number of one that starts the same
// program already, or else the first free one. ok is false if all are taken.
func Place(there map[uint16][]byte, option []byte) (number uint16, known, ok bool) {
	free := -1
	for n := range 1 << 16 {
		have, taken := there[uint16(n)]
		switch {
		case taken && Same(have, option):
			return uint16(n), true, true
		case !taken && free < 0:
			free = n
		}
	}
	return uint16(max(free, 0)), false, free >= 0
}

// First returns the order with a number before all others.
func First(order []uint16, number uint16) []uint16 {
	return append([]uint16{number},
		slices.DeleteFunc(slices.Clone(order), func(n uint16) bool { return n == number })...)
}
