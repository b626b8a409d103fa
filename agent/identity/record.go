package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/source"
)

// Accepted reads the record of the document that configured the node, nil for
// none. An error is a warning: a damaged record counts as a record of an unknown
// drive, and has no keys, so only the keys of the image count then.
func (s Store) Accepted() (*source.Accepted, error) {
	var a source.Accepted
	found, err := durable.ReadJSON(s.Records.Root().FS(), source.AcceptedName, &a)
	if err != nil {
		return &source.Accepted{}, fmt.Errorf("read where machine.yaml is from: %w", err)
	}
	if !found {
		return s.unrecorded(), nil
	}
	if a == (source.Accepted{}) && !s.Configured() {
		return nil, nil // What it had without a machine.yaml was taken back.
	}
	return &a, nil
}

func (s Store) write(a source.Accepted) error {
	return s.Records.WriteJSON(source.AcceptedName, a, 0o600)
}

// Configured reports whether the node has been configured, by this version or one
// before, or may have been.
func (s Store) Configured() bool {
	state, err := fs.Sub(s.Records.Root().FS(), strings.TrimPrefix(generation.Dir, "/"))
	if err != nil {
		return true
	}
	is, err := generation.Read(state).Configured()
	return is || err != nil
}

// ownDriveTime is how long after the start of the machine its own drive may
// appear, if an early version of Loam has not recorded which one that is.
const ownDriveTime = 2 * time.Minute

// UntilOwnDrive returns how long the own drive of a node that an early version of
// Loam has configured may still take to appear, 0 if it is too late.
func (s Store) UntilOwnDrive() time.Duration { return max(ownDriveTime-s.Uptime(), 0) }

// unrecorded is the record of a node without one, nil for a new node. A node that
// is configured all the same comes from an early version of Loam: the drive that is
// there when the machine starts is its own, and no later one.
func (s Store) unrecorded() *source.Accepted {
	if s.UntilOwnDrive() > 0 || !s.Configured() {
		return nil
	}
	return &source.Accepted{}
}

// CloseDrives records, unless there is a record, that the node has its
// configuration without a drive: none counts from now on.
func (s Store) CloseDrives() {
	if _, err := s.Records.Root().Lstat(source.AcceptedName); !errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err := s.write(source.Accepted{}); err != nil {
		s.Log.Error("record that no drive counts", zap.Error(err))
	}
}

// BeforeChange must be called before each change of a node without machine.yaml: the
// first configuration closes its drives. The record comes first, so that no power
// cut leaves a configuration without it; without a configuration it counts as none.
// A node that is configured already may still wait for its own drive.
func (s Store) BeforeChange() {
	if !s.Configured() {
		s.CloseDrives()
	}
}
