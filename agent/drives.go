package agent

import (
	"context"
	"errors"
	"fmt"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/drive"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/uevent"
)

// ErrDrives means that the drives which machine.yaml may be on are others: the agent ends, to be started again by what is on them.
var ErrDrives = errors.New("another drive that machine.yaml may be on")

// Drives are the drives that machine.yaml may be on.
type Drives struct {
	// asked says that no place before them has one; known is how many there were then.
	asked bool
	known int
}

func (d *Drives) list() ([]source.Drive, error) {
	found, err := drive.Find(source.DriveLabels...)
	d.asked, d.known = true, len(found)
	list := make([]source.Drive, len(found))
	for i, one := range found {
		list[i] = one
	}
	return list, err
}

// others reports whether it matters that there are now that many. A drive that was read and is taken away does not: the node goes on as it is.
func (d *Drives) others(now int) bool { return now > d.known || d.known > 1 && now < d.known }

// watchDrives ends the agent's life when drives come that it has to know of. Nothing waits for drives that appear late, or not at all.
func (env Env) watchDrives(ctx context.Context, end context.CancelCauseFunc) {
	if env.Drives == nil || !env.Drives.asked {
		return
	}
	if err := awaitDrives(ctx, env.Drives); errors.Is(err, ErrDrives) {
		end(err)
	} else if err != nil {
		env.Log.Error("drives are not watched", zap.Error(err))
	}
}

// awaitDrives returns ErrDrives as soon as there are others, and nil when ctx ends.
func awaitDrives(ctx context.Context, drives *Drives) error {
	events, err := uevent.Open(uevent.Kernel, "block")
	if err != nil {
		return err
	}
	defer events.Close()
	for {
		found, _ := drive.Find(source.DriveLabels...) // One that cannot be read now may be when it says so.
		if drives.others(len(found)) {
			return fmt.Errorf("%w: %d, not %d", ErrDrives, len(found), drives.known)
		}
		if !events.Next(ctx) {
			return nil
		}
	}
}
