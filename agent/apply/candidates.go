package apply

import (
	"errors"
	"fmt"
	"slices"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// candidates chooses among the generations in the store the one to go back to.
type candidates struct {
	store     *generation.Store
	ledger    Ledger
	osVersion string
}

// load returns the generation called name, the zero Manifest for "" or if it
// cannot be read any more.
func (c candidates) load(name string) (generation.Manifest, error) {
	if name == "" {
		return generation.Manifest{}, nil
	}
	m, err := c.store.Load(name)
	if errors.Is(err, generation.ErrIncomplete) {
		return generation.Manifest{}, nil
	}
	return m, err
}

// newest returns the generation to use when the current one is lost, or the
// zero Manifest if no generation is fit.
func (c candidates) newest(j generation.Journal) (generation.Manifest, error) {
	names, err := c.store.List()
	if err != nil {
		return generation.Manifest{}, err
	}

	proven, err := c.ledger.proven()
	if err != nil {
		return generation.Manifest{}, err
	}

	var unproven generation.Manifest
	for _, name := range slices.Backward(append(names, j.From, j.Good)) {
		m, err := c.load(name)
		if err != nil {
			return m, err
		}

		_, held, err := c.ledger.Held(digestOf(name))
		if err != nil {
			return generation.Manifest{}, err
		}

		switch {
		case m.Name() == "" || m.OSVersion != c.osVersion || held:
		case proven(name) || name == j.Good:
			return m, nil
		case unproven.Name() == "":
			unproven = m
		}
	}

	return unproven, nil
}

// earlier returns the generation to roll back to from have. It is the
// generation with this name or number. Without a name, it is good, if set, or
// else the newest generation before have that has proven itself and that the
// node was not taken back from.
func (c candidates) earlier(
	have generation.Manifest, name, good string,
) (generation.Manifest, error) {
	if name == "" && good != "" {
		return c.store.Load(good)
	}

	names, err := c.store.List()
	if err != nil {
		return generation.Manifest{}, err
	}

	proven, err := c.ledger.proven()
	if err != nil {
		return generation.Manifest{}, err
	}

	for _, candidate := range slices.Backward(names) {
		m, err := c.store.Load(candidate)
		if err != nil {
			return generation.Manifest{}, err
		}
		hold, held, err := c.ledger.Held(m.Digest)
		isOut := (held && !hold.isReplaced()) || !proven(candidate)
		switch {
		case err != nil:
			return generation.Manifest{}, err
		case name == "" && (m.Number >= have.Number || m.OSVersion != c.osVersion || isOut):
		case name == "" || m.Is(name):
			return m, c.usable(have, m)
		}
	}

	if name == "" {
		return generation.Manifest{}, fault.With(fmt.Errorf("no generation before %s", have.Name()),
			fault.NothingBefore)
	}

	return generation.Manifest{}, hint.With(
		fault.With(fmt.Errorf("generation %s: not on this node", name), fault.NoSuchGeneration),
		"`loam history` lists them",
	)
}

func (c candidates) usable(have, m generation.Manifest) error {
	switch {
	case m.Name() == have.Name():
		return fault.With(fmt.Errorf("generation %s: it is the current one", m.Name()),
			fault.AlreadyCurrent)
	case m.OSVersion != c.osVersion:
		return fault.With(fmt.Errorf("generation %s: made for OS version %s, and this is %s",
			m.Name(), m.OSVersion, c.osVersion), fault.CannotBeApplied)
	}
	return nil
}
