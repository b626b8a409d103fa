package show

import (
	"fmt"
	"strings"
)

// SignedMachine is a machine.yaml that a trusted key has signed.
type SignedMachine struct {
	// Path is the file, as on the command line.
	Path string `json:"path"`

	// Serial is its serial number: a node takes another document only with a
	// higher one.
	Serial uint64 `json:"serial"`

	// Signers are those of the given keys that have signed it, each as the line
	// of the PEM file with the public key.
	Signers []string `json:"signers"`

	// Summary says in sentences what a node with it does.
	Summary []string `json:"summary"`
}

// String returns a line, and one more for each sentence of the summary.
func (m SignedMachine) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s: signed, serial %d, by %s\n",
		m.Path, m.Serial, strings.Join(m.Signers, " and "))
	for _, sentence := range m.Summary {
		fmt.Fprintf(&out, "  %s\n", sentence)
	}
	return out.String()
}
