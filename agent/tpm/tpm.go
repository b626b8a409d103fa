// Package tpm stores a number in a TPM 2.0 that can only increase. It uses only
// the four commands needed for that (TPM 2.0 Library, Part 3: Commands).
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

// Device is the kernel's TPM behind its resource manager.
const Device = "/dev/tpmrm0"

// Most is the highest number that fits.
const Most = 64

// index is the handle of an NV index of type bits, which stores the number n by
// setting its lowest n bits. Bits begin clear and can only be set; a counter
// would begin at the highest value that any counter of the TPM has had. The
// handle is "LO" in the owner range (TCG Registry of Reserved TPM 2.0 Handles
// and Localities). The index needs no authorization, and failed authorizations
// do not lock it. Whoever can authorize as the owner of the TPM can delete it.
// It survives a replaced disk, but neither a cleared TPM nor an attacker who
// controls the machine.
const index = 0x0180_4c4f

// attributes of index (Part 2: Structures, TPMA_NV): AUTHWRITE, type bits,
// AUTHREAD, NO_DA. The TPM adds written with the first write.
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

// Code is an error code of a TPM (Part 2, TPM_RC).
type Code uint32

func (c Code) Error() string { return fmt.Sprintf("TPM answers %#x", uint32(c)) }

// noIndex is TPM_RC_HANDLE for the first handle.
const noIndex Code = 0x18b

// ErrTaken means that the index belongs to another program.
var ErrTaken = fmt.Errorf("NV index %#x has something else", index)

// Number is the number in a TPM.
type Number struct {
	// Open opens the TPM. Each write is a command, and the next read must
	// return the complete response.
	Open func() (io.ReadWriteCloser, error)
}

// OfMachine returns the Number in the machine's TPM. Without a TPM, errors are
// fs.ErrNotExist.
func OfMachine() Number {
	return Number{func() (io.ReadWriteCloser, error) {
		// os.OpenFile would make reads non-blocking, and a response that is not
		// ready would be read as an end of file
		// (drivers/char/tpm/tpm-dev-common.c).
		fd, err := unix.Open(Device, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: Device, Err: err}
		}
		return os.NewFile(uintptr(fd), Device), nil
	}}
}

// Read returns the number, 0 if it was never raised.
func (n Number) Read() (value int, err error) {
	err = n.with(func(t tpm) error {
		value, _, err = t.read()
		return err
	})
	return value, err
}

// Raise raises the number to value, at most to Most. It does nothing if the
// number is as high already.
func (n Number) Raise(value int) error {
	return n.with(func(t tpm) error {
		have, defined, err := t.read()
		if err != nil || have >= min(value, Most) {
			return err
		}

		if !defined {
			// No password; TPM2B_NV_PUBLIC, with SHA-256 for its name.
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

// read returns the number, and whether its index exists.
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

// run sends the TPM a command, and returns the parameters of the response.
// authorized adds the empty password for the first handle (Part 1:
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

// bytesOf encodes numbers in the TPM's byte order.
func bytesOf(values ...any) (b []byte) {
	for _, v := range values {
		b, _ = binary.Append(b, binary.BigEndian, v) // of fixed size
	}
	return b
}
