package loop

import (
	"context"
	"slices"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/storage"
)

// storages takes in how much room there is on the file systems.
type storages struct {
	node   *node
	report reporter
}

// observe observes the room, and publishes it if operators should know. It
// also publishes a status again that could not be written.
func (c storages) observe(ctx context.Context) {
	before := c.node.state.Facts.Storage
	now := storage.Decide(before, c.node.host.Storage())
	c.node.state.Facts.Storage = now
	c.announce(before, now)
	if slices.ContainsFunc(now, func(f status.FileSystem) bool { return f.Full }) {
		c.node.alarms.soon(aliveAlarm, limitInterval)
	}

	changed := !slices.Equal(before, now)
	if c.node.published.any && (changed || c.node.published.unwritten) {
		c.node.show(ctx)
	}
}

// announce logs which file systems have run out of room, and which have room
// again, and tells the cluster of the former.
func (c storages) announce(before, now []status.FileSystem) {
	for _, f := range now {
		same := func(b status.FileSystem) bool { return isSameLevel(b, f) }
		if !slices.ContainsFunc(before, same) {
			c.report.log.Warn("little room", zap.String("problem", f.Problem))
			c.report.event("StorageLow", f.Problem)
		}
	}

	for _, b := range before {
		same := func(f status.FileSystem) bool { return b.Path == f.Path }
		if !slices.ContainsFunc(now, same) {
			c.report.log.Info("enough room again", zap.String("path", b.Path))
			c.node.alarms.soon(resumeAlarm, 0) // What there was no room for.
		}
	}
}
