// Package tpm keeps a number in a TPM 2.0 that only rises. It speaks the four
// commands that this takes (TPM 2.0 Library, Part 3: Commands).
package tpm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"os"

	"golang.org/x/sys/unix"
)

// Device is where the kernel has a TPM, behind its resource manager.
const Device = "/dev/tpmrm0"

// Most is the highest number that fits.
const Most = 64

// index has the number: an NV index of type bits, of which the lowest n are
// set. A bit that is set stays so, and all begin clear; a counter would begin
// at whatever any counter of that TPM had reached. It is "LO" in the range of
// owners (TCG Registry of Reserved TPM 2.0 Handles and Localities), needs no
// authorization, and no failed authorization locks it. Who may talk to the TPM
// as its owner can delete it: it outlives the disk's content, but not a TPM
// that is cleared, nor a machine that somebody else commands.
const index = 0x0180_4c4f

// attributes of index (Part 2: Structures, TPMA_NV): AUTHWRITE, type bits,
// AUTHREAD, NO_DA. written is set by its first write.
const (
	attributes = 1<<2 | 2<<4 | 1<<18 | 1<<25
	written    = 1 << 29
)

const owner = 0x4000_0001 // TPM_RH_OWNER

// Part 2, TPM_CC.
const (
	nvDefineSpace = 0x12a
	nvSetBits     = 0x135
	nvRead        = 0x14e
	nvReadPublic  = 0x169
)

// Code is what a TPM answers in place of success (Part 2, TPM_RC).
type Code uint32

func (c Code) Error() string { return fmt.Sprintf("TPM answers %#x", uint32(c)) }

// noIndex is TPM_RC_HANDLE of the first handle.
const noIndex Code = 0x18b

// ErrTaken says that the index is somebody else's.
var ErrTaken = fmt.Errorf("NV index %#x has something else", index)

// Number is the number in a TPM.
type Number struct {
	// Open opens the TPM. Each write is a command, the next read all of its
	// answer.
	Open func() (io.ReadWriteCloser, error)
}

// OfMachine is the Number in the machine's TPM. Where there is none, errors are
// fs.ErrNotExist.
func OfMachine() Number {
	return Number{func() (io.ReadWriteCloser, error) {
		// os.OpenFile would not block, and then an answer that is not there yet
		// is read as an end (drivers/char/tpm/tpm-dev-common.c).
		fd, err := unix.Open(Device, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: Device, Err: err}
		}
		return os.NewFile(uintptr(fd), Device), nil
	}}
}

// Read is the number, 0 if it was never raised.
func (n Number) Read() (value int, err error) {
	err = n.with(func(t tpm) error {
		value, _, err = t.read()
		return err
	})
	return value, err
}

// Raise makes the number value, or Most, unless it is as high already.
func (n Number) Raise(value int) error {
	return n.with(func(t tpm) error {
		have, defined, err := t.read()
		if err != nil || have >= min(value, Most) {
			return err
		}

		if !defined {
			// No password; TPM2B_NV_PUBLIC, whose name is by SHA-256.
			public := bytesOf(uint16(0), uint16(14), uint32(index), uint16(0x0b),
				uint32(attributes), uint16(0), uint16(8))
			if _, err := t.run(nvDefineSpace, []uint32{owner}, true, public); err != nil {
				return fmt.Errorf("define NV index %#x: %w", index, err)
			}
		}

		if _, err := t.run(nvSetBits, []uint32{index, index}, true,
			bytesOf(^uint64(0)>>(Most-min(value, Most)))); err != nil {
			return fmt.Errorf("set bits of NV index %#x: %w", index, err)
		}

		return nil
	})
}

func (n Number) with(do func(t tpm) error) error {
	f, err := n.Open()
	if err != nil {
		return err
	}
	return errors.Join(do(tpm{f}), f.Close())
}

type tpm struct{ io.ReadWriter }

// read is the number, and whether its index is there.
func (t tpm) read() (value int, defined bool, err error) {
	public, err := t.run(nvReadPublic, []uint32{index}, false, nil)
	if errors.Is(err, noIndex) {
		return 0, false, nil
	}

	if err != nil {
		return 0, false, fmt.Errorf("look at NV index %#x: %w", index, err)
	}

	// TPM2B_NV_PUBLIC: size, index, algorithm of the name, attributes, policy
	// (none), size of the data.
	if len(public) < 16 || binary.BigEndian.Uint32(public[8:])&^written != attributes ||
		binary.BigEndian.Uint32(public[12:]) != 8 {
		return 0, false, ErrTaken
	}

	if binary.BigEndian.Uint32(public[8:])&written == 0 {
		return 0, true, nil
	}

	data, err := t.run(nvRead, []uint32{index, index}, true, bytesOf(uint16(8), uint16(0)))
	if err == nil && len(data) != 2+8 {
		err = io.ErrUnexpectedEOF
	}

	if err != nil {
		return 0, true, fmt.Errorf("read NV index %#x: %w", index, err)
	}

	return bits.TrailingZeros64(^binary.BigEndian.Uint64(data[2:])), true, nil
}

// run has the TPM do a command, and returns the parameters of its answer.
// authorized gives the empty password for the first handle (Part 1:
// Architecture, "Command/Response Structure").
func (t tpm) run(
	command uint32, handles []uint32, authorized bool, parameters []byte,
) ([]byte, error) {
	tag := uint16(0x8001)
	body := bytesOf(handles)
	if authorized {
		tag = 0x8002
		body = append(body,
			bytesOf(uint32(9), uint32(0x4000_0009), uint16(0), uint8(0), uint16(0))...)
	}

	body = append(body, parameters...)
	if _, err := t.Write(append(bytesOf(tag, uint32(10+len(body)), command), body...)); err != nil {
		return nil, err
	}

	answer := make([]byte, 4096)
	n, err := t.Read(answer)
	if err != nil {
		return nil, err
	}

	answer = answer[:n]
	if n < 10 || int(binary.BigEndian.Uint32(answer[2:])) != n {
		return nil, fmt.Errorf("TPM answers with %d bytes: %w", n, io.ErrUnexpectedEOF)
	}
	if code := Code(binary.BigEndian.Uint32(answer[6:])); code != 0 {
		return nil, code
	}

	answer = answer[10:]
	if !authorized {
		return answer, nil
	}
	if len(answer) < 4 || int64(binary.BigEndian.Uint32(answer)) > int64(len(answer)-4) {
		return nil, fmt.Errorf("TPM answers with %d bytes: %w", n, io.ErrUnexpectedEOF)
	}

	return answer[4:][:binary.BigEndian.Uint32(answer)], nil
}

// bytesOf is numbers as a TPM has them.
func bytesOf(values ...any) (b []byte) {
	for _, v := range values {
		b, _ = binary.Append(b, binary.BigEndian, v) // of fixed size
	}
	return b
}
