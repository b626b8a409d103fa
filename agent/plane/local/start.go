package local

import "github.com/loam-os/loam/agent/plane"

// FindRecord returns the record that a node follows from the start of its agent on, nil
// if none, and whether the node has its cluster already. first is the record of the
// cluster that it is to make otherwise, nil if none. A node whose record is damaged goes
// on with the one that it last ran: its source waits for a record that can be read.
func FindRecord(store plane.Store, first *plane.Record) (r *plane.Record, made bool, err error) {
	own, found, err := store.Followed()
	switch {
	case err != nil:
		return nil, false, err
	case found:
		return &own, true, nil
	default:
		return first, false, nil
	}
}
