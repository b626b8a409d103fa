// Package crypt encrypts the state partition: it makes the LUKS2 container
// (partitions/luks), and opens it at each boot.
//
//	mark on the partition --Requested--> Mode --Format--> container, recovery key
//	TPM, keys that an operator gave --Open--> volume key --> dm-crypt
//
// The mode TPM seals a random key with the machine's TPM (agent/tpm), so the
// node opens its state without a person as long as the firmware's Secure Boot
// state stays. The mode Key takes the key that an operator gives to the machine
// at each boot. With both, a recovery key opens the container as well. It is
// shown once and not stored.
//
// When an operator has opened a container with the recovery key, the node seals
// a new key with its TPM. So a new board, or new keys in the firmware, need the
// recovery key once.
//
// After the first boot the header alone says how to open the container: each
// key slot of this package has a token.
package crypt
