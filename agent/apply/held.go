package apply

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/durable"
)

// Held is a configuration that the agent no longer applies by itself.
type Held struct {
	// Digest is the first 12 digits of config.Desired.Digest, as in the names
	// of generations.
	Digest string `json:"digest"`
	// Generation is the generation that the node left, empty if it never ran one of
	// this configuration.
	Generation string `json:"generation,omitempty"`
	// Why is the reason.
	Why string `json:"why"`
	// Unit is the unit that Why is about, empty if Why is about no unit.
	Unit string `json:"unit,omitempty"`

	// Operator is set if an operator asked for the hold; the configuration itself is
	// then good.
	Operator bool `json:"operator,omitempty"`
	// At is when it began.
	At time.Time `json:"at"`
}

// isReplaced reports whether the configuration is held only because an operator
// applied another one in its place.
func (h Held) isReplaced() bool { return h.Operator && h.Generation == "" }

const (
	heldName = "held.json"
	heldKept = 32
)

// HeldList reads the holds of a node from its /var/lib/loam, oldest first. A
// list that cannot be decoded counts as empty: a bad configuration that is
// tried again fails again.
func HeldList(state fs.FS) ([]Held, error) {
	var all []Held
	_, err := durable.ReadJSON(state, heldName, &all)
	switch {
	case errors.Is(err, durable.ErrCorrupt):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read what is held: %w", err)
	}
	return all, nil
}

// Held returns the hold on the configuration with this digest, and reports
// whether it is held.
func (l Ledger) Held(digest string) (Held, bool, error) {
	all, err := HeldList(l.State.Root().FS())
	i := slices.IndexFunc(all, func(h Held) bool { return strings.HasPrefix(digest, h.Digest) })
	if err != nil || i < 0 {
		return Held{}, false, err
	}
	return all[i], true, nil
}

// Hold keeps a configuration from being applied again by itself.
func (l Ledger) Hold(h Held) error {
	h.Digest = fmt.Sprintf("%.12s", h.Digest)
	h.At = l.Now().UTC().Truncate(time.Second)
	return l.writeHeld(h.Digest, &h)
}

// Release ends a hold, when a caller asks for the configuration on purpose.
func (l Ledger) Release(digest string) error { return l.writeHeld(digest, nil) }

func (l Ledger) writeHeld(digest string, h *Held) error {
	before, err := HeldList(l.State.Root().FS())
	if err != nil {
		return err
	}

	all := slices.DeleteFunc(slices.Clone(before), func(h Held) bool {
		return strings.HasPrefix(digest, h.Digest)
	})

	if h != nil {
		all = append(all, *h)
	}

	if h == nil && len(before) == len(all) {
		return nil
	}

	return l.State.WriteJSON(heldName, all[max(0, len(all)-heldKept):], 0o644)
}

// digestOf returns the digest in the name of a generation.
func digestOf(name string) string {
	_, digest, _ := strings.Cut(name, "-")
	return digest
}
