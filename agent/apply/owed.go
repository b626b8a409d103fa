package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
)

// owed lists the units of a generation that a change was to start or restart,
// and that have not come up yet. It is durable: a reboot does not clear it.
type owed struct {
	Generation string   `json:"generation"`
	Units      []string `json:"units"`
	// known says that the file was read.
	known bool
}

const owedName = "owed.json"

// owedUnits reads and writes the owed units of the current generation.
type owedUnits struct {
	state   *durable.Dir
	running running
	// cached is the content of the file, once it was read.
	cached *owed
}

// list returns the units of the current generation that are still owed a start.
func (o owedUnits) list() ([]string, error) {
	if err := o.read(); err != nil || len(o.cached.Units) == 0 {
		return nil, err
	}

	current, ok, err := o.running.current()
	if err != nil || !ok {
		return nil, err
	}
	return o.cached.of(current), nil
}

// of returns the units of m that are owed a start. It leaves out a unit that the
// configuration wants stopped, and a unit that the configuration does not list,
// which belongs to the image.
func (o owed) of(m generation.Manifest) []string {
	if o.Generation != m.Name() {
		return nil
	}

	var names []string
	for _, u := range m.Units {
		if !u.Stopped && slices.Contains(o.Units, u.Name) {
			names = append(names, u.Name)
		}
	}
	return names
}

// add notes the units that systemd could not start for the generation called
// name.
func (o owedUnits) add(name string, failed map[string]error) error {
	if err := o.read(); err != nil {
		return err
	}

	next := owed{Generation: name, Units: owing(failed)}

	// A change that was cut off may have added units before.
	if o.cached.Generation == name {
		next.Units = append(next.Units, o.cached.Units...)
		slices.Sort(next.Units)
		next.Units = slices.Compact(next.Units)
	}
	return o.write(next)
}

// addDuring is add in the middle of the change to the generation called name.
// If that generation is no longer current, nothing is owed.
func (o owedUnits) addDuring(name string, failed map[string]error) error {
	if len(owing(failed)) == 0 {
		return nil
	}

	current, ok, err := o.running.current()
	if err != nil || !ok || current.Name() != name {
		return err
	}
	return o.add(name, failed)
}

// owing returns the units whose job has failed. A job that takes too long goes
// on in systemd, and a job that the end of the agent cut off is asked for
// again.
func owing(failed map[string]error) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(failed)) {
		goesOn := errors.Is(failed[name], context.DeadlineExceeded) ||
			errors.Is(failed[name], context.Canceled)
		if name != "" && !goesOn {
			names = append(names, name)
		}
	}
	return names
}

// read reads the file once. If it cannot be decoded, nothing is owed: the state
// of the units shows which are down.
func (o owedUnits) read() error {
	if o.cached.known {
		return nil
	}

	var on owed
	_, err := durable.ReadJSON(o.state.Root().FS(), owedName, &on)
	switch {
	case errors.Is(err, durable.ErrCorrupt):
		on = owed{}
	case err != nil:
		return fmt.Errorf("read the units that are owed: %w", err)
	}

	on.known = true
	*o.cached = on
	return nil
}

// write replaces the owed units. If no unit is owed, it removes the file.
func (o owedUnits) write(next owed) error {
	before := *o.cached
	next.known = true
	*o.cached = next
	if len(next.Units) == 0 && len(before.Units) == 0 {
		return nil
	}

	if len(next.Units) == 0 {
		return o.state.Remove(owedName)
	}

	return o.state.WriteJSON(owedName, next, 0o644)
}
