package boot

import (
	"time"

	"github.com/loam-os/loam/agent/crypt"
)

// RecordPath is where /init leaves its record for the running system.
const RecordPath = "/run/loam/boot.json"

// Record is what /init did, for the agent and the operator.
type Record struct {
	// Slot is "a" or "b"; "memory" if Memory.
	Slot string `json:"slot"`

	// Memory means that the system is in memory, and on no disk.
	Memory bool `json:"memory,omitempty"`

	// RootHash is the verity root hash, 64 hex digits.
	RootHash string `json:"rootHash"`

	// Root, Verity, ESP and State are device nodes.
	Root   string `json:"root"`
	Verity string `json:"verity"`
	ESP    string `json:"esp,omitempty"`
	State  string `json:"state"`

	// Trial means that the system is on trial, OtherLoader that the loader came
	// from another disk.
	Trial       bool `json:"trial,omitempty"`
	OtherLoader bool `json:"otherLoader,omitempty"`

	// Generation is the configuration /etc was built from, "" if none.
	Generation string `json:"generation,omitempty"`

	// Steps lists what was done and how long each step took.
	Steps []Step `json:"steps"`

	// KernelStart is the time from kernel start to the start of /init.
	KernelStart time.Duration `json:"kernelStart"`

	// Container is the partition with the container that State is in, "" if the
	// state is not encrypted. Encryption says which key opened it.
	Container  string     `json:"container,omitempty"`
	Encryption crypt.Mode `json:"encryption,omitempty"`

	// PCRKey is the fingerprint of the key that must have signed a system for the
	// TPM to open the container for it (firmware/pcrsig); "" if none must.
	PCRKey string `json:"pcrKey,omitempty"`

	// SignedEpoch is the lowest security epoch that may start, as a key has signed
	// it and the TPM keeps it; 0 without one.
	SignedEpoch int `json:"signedEpoch,omitempty"`

	// EncryptError says why the state could not be encrypted as requested.
	EncryptError string `json:"encryptError,omitempty"`

	// Warnings are for the operator; the boot continued.
	Warnings []string `json:"warnings,omitempty"`

	// Damage is why the state partition is not mounted, so that the state is in
	// memory; nil if it is mounted.
	Damage *Damage `json:"damage,omitempty"`
}

// Step is one finished step of the boot.
type Step struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took"`
}
