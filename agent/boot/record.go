package boot

import "time"

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

	// Generation is the configuration /etc was built from, "" for none.
	Generation string `json:"generation,omitempty"`

	// Steps lists what was done and how long each step took.
	Steps []Step `json:"steps"`

	// KernelStart is the time from kernel start to the start of /init.
	KernelStart time.Duration `json:"kernelStart"`

	// Warnings are for the operator; the boot continued.
	Warnings []string `json:"warnings,omitempty"`
}

// Step is one finished step of the boot.
type Step struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took"`
}
