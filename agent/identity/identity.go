// Package identity finds the machine.yaml that says who the node is, and records
// which one the node accepted.
//
// [Store.Find] reads it from the places of agent/source. [Store.Accept] records
// what was found, so that no other drive, and no document with a lower serial
// number counts from then on. A node that has trusted keys, or whose document was
// on a drive, has a copy of what it accepted, and goes on with that when the
// present document is missing or does not count. A reset removes the record
// (agent/reset).
package identity

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/hostname"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint/fault"
)

// firmwareConfig is where the kernel shows the files of QEMU's fw_cfg. systemd
// loads the module before it starts any unit.
const firmwareConfig = "sys/firmware/qemu_fw_cfg/by_name"

// Store finds the machine.yaml of a node and has the record of the accepted one.
type Store struct {
	// Records is the root directory of the node, Path its path.
	Records *durable.Dir
	Path    string
	// Credentials is $CREDENTIALS_DIRECTORY, ESP the device of the EFI system
	// partition; empty if the node has none.
	Credentials string
	ESP         string
	// Drives are the drives that machine.yaml may be on; nil to look for none.
	Drives *Drives
	// Uptime is the time since kernel start, Now the wall clock.
	Uptime func() time.Duration
	Now    func() time.Time
	Log    *zap.Logger
}

// Found is the machine.yaml of a node.
type Found struct {
	Machine  machine.Machine
	Document source.Document
	// Name says where the document is from.
	Name string
	// Places are where it was looked for, with the record of the document that
	// the node accepted before.
	Places source.Env
	// Warnings are what operators should know of, but keep the node from nothing.
	Warnings []error
}

// Find reads machine.yaml. The error is source.ErrNone if the node has none.
func (s Store) Find(ctx context.Context) (Found, error) {
	places, warning := s.places()
	found := Found{Places: places}
	found.warn(warning)

	doc, err := source.Find(ctx, places)
	found.Document = doc
	found.Machine, err = found.decode(doc, err)
	if err != nil {
		err = found.goOn(err)
	}

	if s.Drives != nil {
		found.warn(s.Drives.ignored(found.Document))
	}
	return found, err
}

// goOn takes the copy of the accepted document in place of the present one, which
// does not count because of err. It returns err if there is no copy.
func (f *Found) goOn(err error) error {
	kept, keptErr := f.Places.Accepted.Document()
	before, keptErr := f.decode(kept, keptErr)
	if keptErr != nil {
		return err
	}

	if !errors.Is(err, source.ErrNone) {
		f.warn(notTaken(err))
	}
	f.Machine = before
	f.Document = kept
	return nil
}

func (f *Found) warn(err error) {
	if err != nil {
		f.Warnings = append(f.Warnings, err)
	}
}

// decode reads the machine.yaml in a document, unless err says why there is none.
func (f *Found) decode(doc source.Document, err error) (machine.Machine, error) {
	if err != nil {
		return machine.Machine{}, err
	}

	f.Name = doc.Name
	if doc.SignedSerial > 0 {
		f.Name += fmt.Sprintf(", serial %d", doc.SignedSerial)
	}
	if doc.Kept {
		f.Name += ", kept copy"
	}

	m, err := machine.Decode(doc.Name, doc.Text)
	if err == nil && m.Hostname == "" && m.HostnameFrom == "" {
		m.Hostname, err = givenName(doc, m)
	}
	return m, err
}

// places are where machine.yaml may be. The error is a warning.
func (s Store) places() (source.Env, error) {
	cmdline, err := s.Records.Root().ReadFile("proc/cmdline")
	if err != nil {
		s.Log.Warn("read the kernel command line", zap.Error(err))
	}

	accepted, warning := s.Accepted()
	places := source.Env{
		Cmdline:        string(cmdline),
		Credentials:    s.Credentials,
		Given:          filepath.Join(s.Path, source.RunPath),
		FirmwareConfig: filepath.Join(s.Path, firmwareConfig),
		Accepted:       accepted,
		Configured:     s.Configured(),
	}
	if s.Drives != nil {
		places.Drives = s.Drives.list
		s.Drives.accepted = accepted
	}
	if s.ESP != "" {
		places.ESP = source.Partition{Device: s.ESP}
	}
	return places, warning
}

// notTaken is the warning of a node that goes on with its copy of machine.yaml.
// It has one mistake of a document, and a code, for which a warning has no
// field.
func notTaken(err error) error {
	code := fault.Of(err)
	if wrong, is := errors.AsType[document.Errors](err); is && len(wrong) > 0 {
		err = wrong[0]
	}

	err = fmt.Errorf("the node goes on with the machine.yaml that it accepted before: %w", err)
	if code.IsSpecific() {
		err = fmt.Errorf("%s: %w", code, err)
	}
	return err
}

// givenName is the host name of a machine whose machine.yaml sets none: the
// name on the drive with machine.yaml, or else the name that Gardener has for
// the machine; "" if both are absent.
func givenName(doc source.Document, m machine.Machine) (string, error) {
	given := cmp.Or(doc.Hostname, m.MachineName())
	if given == "" {
		return "", nil
	}

	name, err := hostname.Parse(given)
	if err != nil {
		return "", document.Errors{{
			File: doc.Name,
			Path: "hostname",
			Problem: fmt.Sprintf("the machine is called %s, which is not a host name: %s",
				document.Quote(given), err),
			Hint: "write hostname: it goes before the names that a drive or Gardener gives",
		}}
	}
	return name, nil
}

// Accept records the document with the content m, so that no other drive, and
// no document of a lower serial number counts from now on. before is the record
// so far.
func (s Store) Accept(
	doc source.Document, m machine.Machine, before *source.Accepted,
) error {
	now := source.Accept(doc, m.Trust.Keys)
	if doc.Kept {
		now = *before
	}
	if now.Text != "" && credentials.Joined(s.Records.Root(), s.Now()) {
		now = now.Redacted(machine.Joined)
		now.Hostname = cmp.Or(now.Hostname, m.MachineName()) // From its files.
	}
	if s.Drives != nil {
		s.Drives.accepted = &now
	}
	if before != nil && *before == now {
		return nil
	}
	if err := s.write(now); err != nil {
		return fmt.Errorf("record where machine.yaml is from: %w", err)
	}
	return nil
}
