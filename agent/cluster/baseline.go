package cluster

import (
	"context"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/inplace"
)

// baselineAction is what to do with the record of updates in place once the
// Node reports its configuration as applied.
type baselineAction string

const (
	baselineKeep   baselineAction = "keep"
	baselineCreate baselineAction = "create"
	baselineRemove baselineAction = "remove"
)

// decideBaseline decides about the record, which exists if hasRecord. The node
// has one from its first configuration with inPlaceUpdates to its last; later
// configurations are compared with it.
func decideBaseline(w world, hasRecord bool) baselineAction {
	p := w.pending
	switch {
	case p == nil || w.ready != p.sum || w.reported != p.sum:
		return baselineKeep
	case p.update != nil && p.unclear == nil && !hasRecord:
		return baselineCreate
	case p.update == nil && hasRecord:
		return baselineRemove
	}
	return baselineKeep
}

// baselineController creates and removes the record of updates in place.
type baselineController struct {
	updates *updates
	dir     *durable.Dir
}

func (c *baselineController) step(_ context.Context, w *world) (outcome, error) {
	u := c.updates
	switch decideBaseline(*w, u.hasRecord) {
	case baselineCreate:
		return outcome{}, u.save(c.dir, inplace.Record{Done: *w.pending.update})
	case baselineRemove:
		if err := removeRecord(c.dir); err != nil {
			return outcome{}, err
		}
		u.record = inplace.Record{}
		u.hasRecord = false
		u.unsaved = nil
		return outcome{}, nil
	}

	if u.unsaved != nil && u.hasRecord {
		return outcome{}, u.save(c.dir, u.record)
	}
	return outcome{}, nil
}
