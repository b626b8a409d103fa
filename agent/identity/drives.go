package identity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/drive"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/uevent"
	"github.com/loam-os/loam/hint"
)

// ErrDrives means that other drives with a machine.yaml have appeared: the
// agent ends, and starts again with what is on them.
var ErrDrives = errors.New("another drive that machine.yaml may be on")

// Drives are the drives that machine.yaml may be on.
type Drives struct {
	// Find finds the drives of the machine.
	Find func() ([]source.Drive, error)
	// asked says that no place before them has one; known is how many there
	// were then.
	asked bool
	known int
	// found are the drives that were there.
	found []source.Drive
	// accepted is the document that configured the node, nil before the first.
	accepted *source.Accepted
}

func (d *Drives) list() ([]source.Drive, error) {
	list, err := d.Find()

	d.asked = true
	d.known = len(list)
	d.found = list
	return slices.Clone(list), err
}

// ignored returns a warning about the drives that do not count besides the
// accepted document, nil if none. read is the document that configures the
// node now.
func (d *Drives) ignored(read source.Document) error {
	if d.accepted == nil {
		return nil
	}

	var names []string
	for _, one := range d.found {
		if read.Kept || !strings.HasSuffix(read.Name, " of "+one.String()) {
			names = append(names, one.String())
		}
	}
	if len(names) == 0 {
		return nil
	}

	return hint.With(
		fmt.Errorf(
			"ignored %s: this node has had its machine.yaml, or its configuration, from "+
				"another place, or from a drive without a serial number",
			strings.Join(names, ", "),
		),
		"detach it; to give the node another machine.yaml: loam reset",
	)
}

// others reports whether the agent must start again because now drives were
// found. A drive that was read and then removed does not matter: the node goes
// on.
func (d *Drives) others(now int) bool { return now > d.known || (d.known > 1 && now < d.known) }

// Watched reports whether a drive that appears can still give the node its
// first document.
func (d *Drives) Watched() bool { return d != nil && d.asked && d.accepted == nil }

// None reports whether there was no drive when the drives were last looked for.
func (d *Drives) None() bool { return d.known == 0 }

// Await returns ErrDrives as soon as there are others, and nil when ctx ends.
func (d *Drives) Await(ctx context.Context) error {
	events, err := uevent.Open(uevent.Kernel, "block")
	if err != nil {
		return err
	}
	defer events.Close()

	for {
		// An unreadable drive may become readable: its event says so.
		found, _ := drive.Find(source.DriveLabels...)
		if d.others(len(found)) {
			return fmt.Errorf("%w: %d, not %d", ErrDrives, len(found), d.known)
		}
		if !events.Next(ctx) {
			return nil
		}
	}
}
