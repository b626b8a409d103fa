package tpm

import (
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"
)

// Raise raises the number to value, at most to Most. It does nothing if the
// number is as high already. After [Sealer.Lock] the error is ErrLocked.
func (n Number) Raise(value int) error {
	value = min(value, Most)
	return n.with(func(t tpm) error {
		ix := lockedNumber()
		have, defined, err := t.read(ix)
		if err != nil || have >= value {
			return err
		}

		if !defined {
			if err := define(transport.FromReadWriter(t), ix); err != nil {
				return fmt.Errorf("define NV index %#x: %w", index, err)
			}
		}

		if err := t.setBits(^uint64(0) >> (Most - value)); err != nil {
			return fmt.Errorf("set bits of NV index %#x: %w", index, err)
		}
		return nil
	})
}

// define makes an index, and replaces an index that does not count.
func define(t transport.TPM, ix nvIndex) error {
	public, err := tpm2.NVReadPublic{NVIndex: tpm2.TPMHandle(ix.handle)}.Execute(t)
	if err == nil {
		_, err := tpm2.NVUndefineSpace{
			AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)},
			NVIndex: tpm2.NamedHandle{
				Handle: tpm2.TPMHandle(ix.handle),
				Name:   public.NVName,
			},
		}.Execute(t)
		if err != nil {
			return err
		}
	}

	info, err := tpm2.Unmarshal[tpm2.TPM2BNVPublic](ix.public)
	if err != nil {
		return err
	}
	_, err = tpm2.NVDefineSpace{
		AuthHandle: tpm2.AuthHandle{Handle: tpm2.TPMRHOwner, Auth: tpm2.PasswordAuth(nil)},
		PublicInfo: *info,
	}.Execute(t)
	return err
}

// setBits sets bits of the index, in a session that has its policy.
func (t tpm) setBits(bits uint64) (err error) {
	chip := transport.FromReadWriter(t)
	session, end, err := tpm2.PolicySession(chip, tpm2.TPMAlgSHA256, nonceSize)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()

	if err := requirePCRs(chip, session, lockPCR); err != nil {
		return err
	}
	_, err = t.run(nvSetBits, []uint32{index, index}, uint32(session.Handle()), bytesOf(bits))
	if code, ok := errors.AsType[Code](err); ok && tpm2.TPMRC(code).Is(tpm2.TPMRCPolicyFail) {
		return ErrLocked
	}
	return err
}

// writePolicy is the digest of a policy that wants lockPCR to be zero (Part 3,
// TPM2_PolicyPCR).
func writePolicy() []byte {
	const policyPCR = 0x17f
	values := sha256.Sum256(make([]byte, sha256.Size))

	h := sha256.New()
	h.Write(make([]byte, sha256.Size)) // The policy so far.
	h.Write(bytesOf(uint32(policyPCR)))
	h.Write(tpm2.Marshal(pcrs(lockPCR)))
	h.Write(values[:])
	return h.Sum(nil)
}
