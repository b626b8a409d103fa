package apply

import (
	"github.com/loam-os/loam/agent/generation"
)

// running knows which generation the node runs.
type running struct {
	store     *generation.Store
	osVersion string
	// last is the generation that was current when last read.
	last *generation.Manifest
}

// current reads the generation that the node runs; false if it has none.
func (r running) current() (generation.Manifest, bool, error) {
	m, ok, err := r.store.Current(r.osVersion)
	if ok {
		*r.last = m
	}
	return m, ok, err
}
