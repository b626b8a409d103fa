package pcrsig

import (
	"crypto/rsa"
	"crypto/sha256"
	"encoding/binary"
)

// EpochIndex is the handle of the NV index whose number only a key can raise: the
// security epoch below which no system starts. It is "LP" in the owner range (TCG
// Registry of Reserved TPM 2.0 Handles and Localities).
//
// The index has the type bits, and stores the number n by setting its lowest n
// bits. Its policy wants that the key has signed the very command (PolicyCpHash,
// PolicyAuthorize), and that PCR 15 is zero: /init extends it before the system
// starts.
const EpochIndex = 0x0180_4c50

// epochAttributes of the index (TPM 2.0 Library, Part 2: Structures, TPMA_NV):
// POLICYWRITE, type bits, AUTHREAD, NO_DA. The TPM adds written with the first
// write.
const (
	epochAttributes = 1<<3 | 2<<4 | 1<<18 | 1<<25
	written         = 1 << 29
)

// Numbers of Part 2.
const (
	algNull           = 0x0010
	algRSA            = 0x0001
	algSHA256         = 0x000b
	ccNVSetBits       = 0x0135
	ccPolicyCpHash    = 0x016e
	ccPolicyAuthorize = 0x016a
	ccPolicyPCR       = 0x017f
)

// hash returns the digest of values in the TPM's byte order.
func hash(values ...any) [sha256.Size]byte { return sha256.Sum256(encode(values...)) }

func encode(values ...any) (text []byte) {
	for _, v := range values {
		text, _ = binary.Append(text, binary.BigEndian, v) // It is of fixed size.
	}
	return text
}

// selection is a TPML_PCR_SELECTION of one PCR of SHA-256.
func selection(pcr int) []byte {
	var pcrs [3]byte
	pcrs[pcr/8] = 1 << (pcr % 8)
	return encode(uint32(1), uint16(algSHA256), uint8(len(pcrs)), pcrs)
}

// keyName returns the name of a key that is loaded as agent/tpm does it: the
// digest of its TPMT_PUBLIC.
func keyName(key *rsa.PublicKey) []byte {
	const userWithAuth, signEncrypt = 1 << 6, 1 << 18
	public := encode(uint16(algRSA), uint16(algSHA256), uint32(userWithAuth|signEncrypt),
		uint16(0), uint16(algNull), uint16(algNull), uint16(key.N.BitLen()), uint32(0),
		uint16(len(key.N.Bytes())), key.N.Bytes())
	return encode(uint16(algSHA256), hash(public))
}

// EpochPublic returns the TPMS_NV_PUBLIC of the index, before its first write or
// afterwards.
func EpochPublic(key *rsa.PublicKey, isWritten bool) []byte {
	var policy [sha256.Size]byte
	policy = hash(policy, uint32(ccPolicyAuthorize), keyName(key))
	policy = hash(policy) // The policy has no reference.

	const lockPCR = 15
	var zero [sha256.Size]byte
	policy = hash(policy, uint32(ccPolicyPCR), selection(lockPCR), hash(zero))

	attributes := uint32(epochAttributes)
	if isWritten {
		attributes |= written
	}
	return encode(uint32(EpochIndex), uint16(algSHA256), attributes, uint16(len(policy)), policy,
		uint16(8))
}

// EpochBits returns the bits of a number; one that is too high has all bits.
func EpochBits(epoch int) uint64 { return ^uint64(0) >> (maxEpoch - min(epoch, maxEpoch)) }

// EpochCommand returns the cpHash of the command that raises the number to epoch
// (Part 1: Architecture, "cpHash").
func EpochCommand(key *rsa.PublicKey, epoch int, isWritten bool) [sha256.Size]byte {
	name := encode(uint16(algSHA256), hash(EpochPublic(key, isWritten)))
	return hash(uint32(ccNVSetBits), name, name, EpochBits(epoch))
}

// EpochPolicy returns the digest of the policy that allows that command only.
func EpochPolicy(key *rsa.PublicKey, epoch int, isWritten bool) [sha256.Size]byte {
	var policy [sha256.Size]byte
	return hash(policy, uint32(ccPolicyCpHash), EpochCommand(key, epoch, isWritten))
}
