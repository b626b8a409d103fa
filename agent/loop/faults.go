package loop

import "github.com/loam-os/loam/agent/status"

// Faults are the problems of the node. Each stays until it is solved; nil means
// no problem.
type Faults struct {
	// Desired is the problem of the desired configuration, or why it is not
	// applied. Refusal is its kind, empty if it is not about a document.
	Desired *status.Error
	Refusal status.Refusal
	// RevertedFrom is the generation that was reverted, if that is why.
	RevertedFrom string
	// Unfinished keeps the node between two generations, or from being its
	// current one.
	Unfinished *status.Error
	// Volume is the problem of the data volume.
	Volume *status.Error
	// EtcdVolume is the problem of the volume of etcd.
	EtcdVolume *status.Error
	// Jobs is what systemd could not do for the current generation.
	Jobs *status.Error
	// Unit is a unit that has failed.
	Unit *status.Error
	// Drift is a managed path that cannot be repaired.
	Drift *status.Error
}

// First returns the fault that an operator sees, because it must be repaired
// first; nil if none.
func (f Faults) First() *status.Error {
	inOrder := [...]*status.Error{
		f.Desired,
		f.Unfinished,
		f.Volume,
		f.EtcdVolume,
		f.Jobs,
		f.Unit,
		f.Drift,
	}
	for _, fault := range inOrder {
		if fault != nil {
			return fault
		}
	}
	return nil
}

// refused returns the faults of a node that does not do what it was asked.
func (f Faults) refused(kind status.Refusal, why *status.Error) Faults {
	f.Desired = why
	f.Refusal = kind
	f.RevertedFrom = ""
	return f
}

// accepted returns the faults without a refusal.
func (f Faults) accepted() Faults { return f.refused("", nil) }

// refusal is the kind of the fault in a status.
func (f Faults) refusal() status.Refusal {
	if f.Desired == nil && f.Unfinished != nil {
		return status.NotApplied
	}
	return f.Refusal
}
