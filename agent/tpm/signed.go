package tpm

import (
	"crypto/rsa"
	"errors"
	"fmt"
	"io"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"github.com/loam-os/loam/firmware/pcrsig"
)

// SignedNumber is a number in a TPM that can only increase, and only to what a key
// has signed ([pcrsig.EpochPolicy]), before [Sealer.Lock]. Not even another system
// on the machine can raise it further, with or without Secure Boot. Whoever can
// authorize as the owner of the TPM can delete it.
type SignedNumber struct {
	// Open opens the TPM; see [Number].
	Open func() (io.ReadWriteCloser, error)

	Key    *rsa.PublicKey
	Signed pcrsig.Signatures
}

// SignedOfMachine returns the SignedNumber in the machine's TPM.
func SignedOfMachine(key *rsa.PublicKey, signed pcrsig.Signatures) SignedNumber {
	return SignedNumber{Open: OfMachine().Open, Key: key, Signed: signed}
}

// index returns its NV index.
func (n SignedNumber) index() nvIndex {
	public := pcrsig.EpochPublic(n.Key, false)
	return nvIndex{
		handle: pcrsig.EpochIndex,
		public: bytesOf(uint16(len(public)), public),
	}
}

// Read returns the number, 0 if it was never raised.
func (n SignedNumber) Read() (value int, err error) {
	err = Number{n.Open}.with(func(t tpm) error {
		value, _, err = t.read(n.index())
		return err
	})
	return value, err
}

// Raise raises the number to value, at most to Most. It does nothing if the number
// is as high already. The error is ErrUnsigned if the key has not signed that value, and
// ErrLocked after [Sealer.Lock].
func (n SignedNumber) Raise(value int) error {
	value = min(value, Most)
	return Number{n.Open}.with(func(t tpm) error {
		have, defined, err := t.read(n.index())
		if err != nil || have >= value {
			return err
		}

		if !defined {
			if err := define(transport.FromReadWriter(t), n.index()); err != nil {
				return fmt.Errorf("define NV index %#x: %w", pcrsig.EpochIndex, err)
			}
		}
		if err := n.setBits(t, value, have > 0); err != nil {
			return fmt.Errorf("set bits of NV index %#x: %w", pcrsig.EpochIndex, err)
		}
		return nil
	})
}

// setBits raises the number in a session that has the index's policy.
func (n SignedNumber) setBits(t tpm, value int, isWritten bool) (err error) {
	policy := pcrsig.EpochPolicy(n.Key, value, isWritten)
	signature := n.Signed.Find(n.Key, policy)
	if signature == nil {
		return ErrUnsigned
	}

	chip := transport.FromReadWriter(t)
	session, end, err := tpm2.PolicySession(chip, tpm2.TPMAlgSHA256, nonceSize)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()

	command := pcrsig.EpochCommand(n.Key, value, isWritten)
	_, err = tpm2.PolicyCPHash{
		PolicySession: session.Handle(),
		CPHashA:       tpm2.TPM2BDigest{Buffer: command[:]},
	}.Execute(chip)
	if err != nil {
		return err
	}
	if err := authorize(chip, session, n.Key, policy, signature); err != nil {
		return err
	}
	if err := requirePCRs(chip, session, lockPCR); err != nil {
		return err
	}

	_, err = t.run(nvSetBits, []uint32{pcrsig.EpochIndex, pcrsig.EpochIndex},
		uint32(session.Handle()), bytesOf(pcrsig.EpochBits(value)))
	if code, ok := errors.AsType[Code](err); ok && tpm2.TPMRC(code).Is(tpm2.TPMRCPolicyFail) {
		return ErrLocked
	}
	return err
}
