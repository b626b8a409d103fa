package room

import (
	"context"
	"errors"
	"io/fs"
	"time"
)

// lookInterval is the time between two looks: a file of etcd that is new, or was
// truncated, has no room of its own until then.
const lookInterval = time.Minute

// Event is what the log should say.
type Event struct {
	// Made is what was reserved, All whether etcd has all of its room.
	Made []Reservation
	All  bool
	Err  error
}

// Keeper keeps the room of an etcd. One goroutine uses it.
type Keeper struct {
	// Dir is the data directory of etcd, which may be absent.
	Dir string

	// Report is called when etcd has lost its room or has it again, and for each error
	// that is another one.
	Report func(Event)

	// lacks is whether the last look has left etcd without all of its room, and problem
	// is the error that was reported last.
	lacks   bool
	problem string
}

// Run looks at once, and then once a minute until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		k.Look()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Look looks once, and reserves what is to be reserved.
func (k *Keeper) Look() {
	made, all, err := Keep(k.Dir)
	if errors.Is(err, fs.ErrNotExist) {
		return // etcd has no data yet, or replaces a file.
	}

	var problem string
	if err != nil {
		problem = err.Error()
	}
	lacks := err == nil && !all
	if lacks != k.lacks || problem != k.problem {
		k.Report(Event{Made: made, All: all, Err: err})
	}
	k.lacks = lacks
	k.problem = problem
}
