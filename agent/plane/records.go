package plane

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/durable"
)

// appliedFile is the record that the node last ran without a trial.
const appliedFile = StateDirectory + "/applied.json"

// publishedFile is the record that the node and the ConfigMap last agreed on.
const publishedFile = StateDirectory + "/published.json"

// pendingFile is the record that they are about to agree on.
const pendingFile = StateDirectory + "/pending.json"

// records are the record of a node, and what it keeps of earlier ones.
type records struct {
	// dir is the root directory of the node.
	dir *durable.Dir
}

// Record returns the record, and whether the node has one. A field that a later
// release has written is left out.
func (s records) Record() (Record, bool, error) {
	text, err := s.dir.Root().ReadFile(RecordFile[1:])
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, false, nil
	}
	if err != nil {
		return Record{}, false, err
	}

	r, err := DecodeKept(RecordFile, text)
	return r, true, err
}

// Followed is Record, or the record that the node last ran if its own cannot be read: with
// that it goes on.
func (s records) Followed() (Record, bool, error) {
	r, found, err := s.Record()
	if err == nil {
		return r, found, nil
	}
	applied, appliedErr := s.Applied()
	if applied == nil {
		return r, found, errors.Join(err, appliedErr)
	}
	return *applied, true, nil
}

// DecodeKept is [Decode] for the record that a node has kept, in which a later
// release may have written more fields, and a later version of Kubernetes.
func DecodeKept(name string, text []byte) (Record, error) {
	r, _, err := decode(name, text, check)
	if _, refusal := document.Lenient(err); refusal != nil {
		return Record{}, refusal
	}
	return r, nil
}

// WriteRecord replaces the record, durably.
func (s records) WriteRecord(r Record) error { return s.write(RecordFile, r) }

// ErrChanged means that the record is not the one that was to be replaced.
var ErrChanged = errors.New("the record has changed meanwhile")

// ReplaceRecord replaces the record before, durably. The error is [ErrChanged] if
// the node has another one by now.
func (s records) ReplaceRecord(before, after Record) error {
	return s.replace(after, func(have Record, err error) error {
		return checkSame(before, have, err)
	})
}

// FollowRecord is ReplaceRecord by the record of the ConfigMap. It writes what both are
// about to agree on, too.
func (s records) FollowRecord(before, after Record) error {
	return s.replace(after, func(have Record, err error) error {
		if err := checkSame(before, have, err); err != nil {
			return err
		}
		_, err = s.dir.WriteFile(pendingFile[1:], after.Text(), 0o600)
		return err
	})
}

// checkSame returns [ErrChanged] unless have, or the error in its place, is before.
func checkSame(before, have Record, err error) error {
	if err == nil && !bytes.Equal(have.Text(), before.Text()) {
		return ErrChanged
	}
	return err
}

// ReplaceDamaged replaces a record that cannot be read, durably. The error is
// [ErrChanged] if it can be by now.
func (s records) ReplaceDamaged(after Record) error {
	return s.replace(after, func(_ Record, err error) error {
		if err == nil {
			return ErrChanged
		}
		return nil
	})
}

// replace replaces the record, unless check returns an error for what [records.Record]
// returns.
func (s records) replace(after Record, check func(have Record, err error) error) (err error) {
	unlock, err := lock(s.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()

	have, _, err := s.Record()
	if err := check(have, err); err != nil {
		return fmt.Errorf("replace %s: %w", RecordFile, err)
	}
	_, err = s.dir.WriteFile(RecordFile[1:], after.Text(), 0o600)
	return err
}

func (s records) write(file string, r Record) (err error) {
	unlock, err := lock(s.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, unlock()) }()

	_, err = s.dir.WriteFile(file[1:], r.Text(), 0o600)
	return err
}

// Applied returns the record that the node last ran without a trial, nil if there is
// none that can be read.
func (s records) Applied() (*Record, error) { return s.read(appliedFile) }

// WriteApplied replaces the record that the node runs, durably.
func (s records) WriteApplied(r Record) error { return s.write(appliedFile, r) }

// Published returns the record that the node and the ConfigMap last agreed on, nil
// if there is none that can be read: without it the ConfigMap counts.
func (s records) Published() (*Record, error) { return s.read(publishedFile) }

// Pending returns the record that the node and the ConfigMap were about to agree
// on, nil if there is none that can be read.
func (s records) Pending() (*Record, error) { return s.read(pendingFile) }

func (s records) read(file string) (*Record, error) {
	text, err := s.dir.Root().ReadFile(file[1:])
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}

	if r, err := DecodeKept(file, text); err == nil {
		return &r, nil
	}
	return nil, nil
}

// WritePending replaces the record that the node and the ConfigMap are about to
// agree on, durably. It must be called before the ConfigMap becomes that of the node.
func (s records) WritePending(r Record) error { return s.write(pendingFile, r) }

// RemovePending removes it, as they certainly have not agreed.
func (s records) RemovePending() error { return s.dir.Remove(pendingFile[1:]) }

// WritePublished replaces the record that the node and the ConfigMap last agreed
// on, durably.
func (s records) WritePublished(r Record) error { return s.write(publishedFile, r) }

// lock waits for another process that writes: a file is first written under a
// temporary name, which is the same for all writers.
func lock(root *durable.Dir) (unlock func() error, err error) {
	if err := root.MkdirAll(StateDirectory[1:]); err != nil {
		return nil, err
	}
	dir, err := root.Root().Open(StateDirectory[1:])
	if err != nil {
		return nil, err
	}

	for err = unix.EINTR; errors.Is(err, unix.EINTR); {
		err = unix.Flock(int(dir.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", StateDirectory, err), dir.Close())
	}
	return dir.Close, nil
}
