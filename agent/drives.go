package agent

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
	// asked says that no place before them has one; known is how many there
	// were then.
	asked bool
	known int
	// found are the drives that were there.
	found []source.Drive
	// accepted is the document that configured the node, nil before the first.
	accepted *source.Accepted
	// find finds the drives.
	find func() ([]source.Drive, error)
}

func (d *Drives) list() ([]source.Drive, error) {
	list, err := d.find()

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
func (d *Drives) others(now int) bool { return now > d.known || d.known > 1 && now < d.known }

// watched reports whether a drive that appears can still give the node its
// first document.
func (d *Drives) watched() bool { return d != nil && d.asked && d.accepted == nil }

// watchDrives ends the agent's life when drives come that it has to know of.
// Nothing waits for drives that appear late, or not at all. A node whose drive an
// early version of Loam did not record waits for that until ownDriveTime.
func (n *node) watchDrives(ctx context.Context, end context.CancelCauseFunc) {
	if !n.Drives.watched() {
		return
	}

	life := ctx
	ofEarlyVersion := n.configured()
	if ofEarlyVersion {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(ownDriveTime-n.Uptime(), 0))
		defer cancel()
	}
	n.persist(ctx, "drives are not watched", func() error {
		err := awaitDrives(ctx, n.Drives)
		if errors.Is(err, ErrDrives) {
			end(err)
			return nil
		}
		return err
	})

	if ofEarlyVersion && life.Err() == nil && n.Drives.known == 0 && !n.reset.Active() {
		n.closeDrives()
	}
}

// awaitDrives returns ErrDrives as soon as there are others, and nil when ctx
// ends.
func awaitDrives(ctx context.Context, drives *Drives) error {
	events, err := uevent.Open(uevent.Kernel, "block")
	if err != nil {
		return err
	}
	defer events.Close()

	for {
		// An unreadable drive may become readable: its event says so.
		found, _ := drive.Find(source.DriveLabels...)
		if drives.others(len(found)) {
			return fmt.Errorf("%w: %d, not %d", ErrDrives, len(found), drives.known)
		}
		if !events.Next(ctx) {
			return nil
		}
	}
}
