package apply

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/generation"
)

// Held is a configuration that is not applied by itself any more.
type Held struct {
	// Digest is the first 12 digits of config.Desired.Digest, as in the names
	// of generations.
	Digest string `json:"digest"`
	Why    string `json:"why"`

	// Operator says that a person wanted it so, and nothing is wrong.
	Operator bool      `json:"operator,omitempty"`
	At       time.Time `json:"at"`
}

const (
	heldName = "held.json"
	heldKept = 32
)

// HeldList reads what is held on a node, oldest first, from its /var/lib/loam.
// A list that cannot be decoded is empty: what is tried again fails again.
func HeldList(state fs.FS) ([]Held, error) {
	text, err := fs.ReadFile(state, heldName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	if err != nil {
		return nil, fmt.Errorf("read what is held: %w", err)
	}

	var all []Held
	if json.Unmarshal(text, &all) != nil {
		return nil, nil
	}

	return all, nil
}

// Held says whether, and why, a configuration is not to be applied by itself.
func (e *Executor) Held(digest string) (Held, bool, error) {
	all, err := HeldList(e.State.Root().FS())
	i := slices.IndexFunc(all, func(h Held) bool { return strings.HasPrefix(digest, h.Digest) })
	if err != nil || i < 0 {
		return Held{}, false, err
	}
	return all[i], true, nil
}

// Hold keeps a configuration from being applied again by itself.
func (e *Executor) Hold(h Held) error {
	h.Digest, h.At = fmt.Sprintf("%.12s", h.Digest), e.Now().UTC().Truncate(time.Second)
	return e.keepHeld(h.Digest, &h)
}

// Release undoes Hold, for who asks for the configuration on purpose.
func (e *Executor) Release(digest string) error { return e.keepHeld(digest, nil) }

func (e *Executor) keepHeld(digest string, h *Held) error {
	before, err := HeldList(e.State.Root().FS())
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

	text, err := json.Marshal(all[max(0, len(all)-heldKept):])
	if err != nil {
		return fmt.Errorf("write what is held: %w", err)
	}
	if _, err := e.State.WriteFile(heldName, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write what is held: %w", err)
	}

	return nil
}

// digestOf is the part of a generation's name that tells its configuration.
func digestOf(name string) string {
	_, digest, _ := strings.Cut(name, "-")
	return digest
}

// concludeRevert ends a way back: what the node went back from is not applied
// again by itself.
func (e *Executor) concludeRevert(j generation.Journal) error {
	if j.From != "" && digestOf(j.From) != digestOf(j.To) {
		err := e.Hold(Held{Digest: digestOf(j.From), Why: j.Back, Operator: j.Operator})
		if err != nil {
			return err
		}
	}
	return e.conclude(j, Reverted, j.Back)
}

// conclude writes down what became of a change and ends it.
func (e *Executor) conclude(j generation.Journal, outcome Outcome, reason string) error {
	if err := e.record(j, outcome, reason); err != nil {
		return err
	}
	e.gate = nil
	return e.store().RemoveJournal()
}
