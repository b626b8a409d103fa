// Package tpm stores numbers in a TPM 2.0 that can only increase ([Number],
// [SignedNumber]), and seals secrets with it ([Sealer]). All end at
// [Sealer.Lock], which /init calls before the system starts: from then on the
// numbers can only be read. The package writes three commands itself (TPM 2.0
// Library, Part 3: Commands).
package tpm

import (
	"bytes"
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
// and Localities).
//
// Its policy allows writes only while [lockPCR] is zero, so root on the running
// system cannot raise it and so make the machine refuse every system. Reading
// needs no authorization, and failed authorizations do not lock the index.
// Whoever can authorize as the owner of the TPM can delete it. It survives a
// replaced disk, but neither a cleared TPM nor an attacker who controls the
// machine.
const index = 0x0180_4c4f

// attributes of index (Part 2: Structures, TPMA_NV): POLICYWRITE, type bits,
// AUTHREAD, NO_DA. The TPM adds written with the first write. openAttributes
// were those of an index without a policy, which does not count.
const (
	attributes     = 1<<3 | 2<<4 | 1<<18 | 1<<25
	openAttributes = 1<<2 | 2<<4 | 1<<18 | 1<<25
	written        = 1 << 29
)

// Part 2, TPM_CC.
const (
	nvSetBits    = 0x135
	nvRead       = 0x14e
	nvReadPublic = 0x169
)

// Code is an error code of a TPM (Part 2, TPM_RC).
type Code uint32

func (c Code) Error() string { return fmt.Sprintf("TPM answers %#x", uint32(c)) }

// noIndex is TPM_RC_HANDLE for the first handle.
const noIndex Code = 0x18b

// ErrTaken means that the index belongs to another program.
var ErrTaken = errors.New("the NV index of the security epoch has something else")

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
		value, _, err = t.read(lockedNumber())
		return err
	})
	return value, err
}

func (n Number) with(do func(t tpm) error) error {
	f, err := n.Open()
	if err != nil {
		return err
	}
	return errors.Join(do(tpm{f}), f.Close())
}

type tpm struct{ io.ReadWriter }

// nvIndex is an index with the number. Its public areas are TPM2B_NV_PUBLIC.
type nvIndex struct {
	handle uint32
	public []byte

	// replaced is an older index in its place, which does not count; it may be nil.
	replaced []byte
}

// lockedNumber is the index of [Number].
func lockedNumber() nvIndex {
	return nvIndex{handle: index, public: lockedIndex(), replaced: openIndex()}
}

// lockedIndex is the TPM2B_NV_PUBLIC of index.
func lockedIndex() []byte {
	policy := writePolicy()
	return bytesOf(uint16(14+len(policy)), uint32(index), uint16(0x0b), uint32(attributes),
		uint16(len(policy)), policy, uint16(8))
}

// openIndex is the TPM2B_NV_PUBLIC of an index without a policy.
func openIndex() []byte {
	return bytesOf(uint16(14), uint32(index), uint16(0x0b), uint32(openAttributes), uint16(0),
		uint16(8))
}

// read returns the number of an index, and whether the index exists.
func (t tpm) read(ix nvIndex) (value int, defined bool, err error) {
	public, err := t.run(nvReadPublic, []uint32{ix.handle}, noSession, nil)
	if errors.Is(err, noIndex) {
		return 0, false, nil
	}

	if err != nil {
		return 0, false, fmt.Errorf("look at NV index %#x: %w", ix.handle, err)
	}

	// TPM2B_NV_PUBLIC: size, index, algorithm of the name, attributes, policy,
	// size of the data. Its name follows.
	if len(public) < 12 {
		return 0, false, ErrTaken
	}
	found := binary.BigEndian.Uint32(public[8:])
	binary.BigEndian.PutUint32(public[8:], found&^written)

	switch {
	case ix.replaced != nil && bytes.HasPrefix(public, ix.replaced):
		return 0, false, nil
	case !bytes.HasPrefix(public, ix.public):
		return 0, false, ErrTaken
	case found&written == 0:
		return 0, true, nil
	}

	data, err := t.run(nvRead, []uint32{ix.handle, ix.handle}, password,
		bytesOf(uint16(8), uint16(0)))
	if err == nil && len(data) != 2+8 {
		err = io.ErrUnexpectedEOF
	}

	if err != nil {
		return 0, true, fmt.Errorf("read NV index %#x: %w", ix.handle, err)
	}

	return bits.TrailingZeros64(^binary.BigEndian.Uint64(data[2:])), true, nil
}

// Sessions that authorize a command: none, or the empty password (TPM_RS_PW).
const (
	noSession = 0
	password  = 0x4000_0009
)

// run sends the TPM a command, and returns the parameters of the response. The
// session authorizes the first handle, and goes on afterwards (Part 1:
// Architecture, "Command/Response Structure").
func (t tpm) run(
	command uint32, handles []uint32, session uint32, parameters []byte,
) ([]byte, error) {
	const goesOn = 1
	tag := uint16(0x8001)
	body := bytesOf(handles)
	authorized := session != noSession
	if authorized {
		tag = 0x8002
		body = append(body,
			bytesOf(uint32(9), session, uint16(0), uint8(goesOn), uint16(0))...)
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
