// Package source finds and reads the documents that a node is given: its
// machine.yaml, and from where that says, its configuration.
//
// machine.yaml is looked for in loam.config= on the kernel command line, in the
// credential loam.machine (SMBIOS, fw_cfg: systemd imports both), in fw_cfg, in
// /run/loam on a node that runs from memory, in loam/ on the ESP, and on a
// drive labelled LOAM or CIDATA. An error in one place is an error, never a
// silent step to the next. Nothing waits for drives: when a drive appears that
// makes a difference, the agent ends and starts again by what the drive says.
package source

import (
	"context"
	"errors"

	"github.com/loam-os/loam/agent/machine"
)

// Document is a text and the name of the place it came from. Version is what
// that place calls this state of it, Hostname what it calls the node; "" if it
// has no such thing.
type Document struct {
	Name     string
	Text     []byte
	Version  string
	Hostname string

	// FromCluster says that a cluster made the document: it is read as the
	// cluster's own agent reads it, which overlooks mistakes. What a person
	// wrote is read strictly.
	FromCluster bool
}

// ErrAbsent is in the error of Read when there is no document at the place. The
// node then keeps what it has.
var ErrAbsent = errors.New("no document")

// Source is a place that a document comes from.
type Source interface {
	// Read reads the document as it is now. An error names the place.
	Read(ctx context.Context) (Document, error)
	// Watch sends whenever the document may have changed, appeared or gone, at
	// least once after the last change. The channel closes when ctx ends, or
	// earlier if watching has become impossible. To miss nothing, watch before
	// the first Read.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// Env is the node as far as finding documents goes.
type Env struct {
	// Cmdline is the text of /proc/cmdline.
	Cmdline string

	// Credentials is $CREDENTIALS_DIRECTORY, where systemd puts credentials; it
	// takes them from SMBIOS OEM strings too (systemd.system-credentials(7)).
	Credentials string

	// FirmwareConfig is the directory of the files that QEMU hands over by name
	// (fw_cfg; Documentation/ABI/testing/sysfs-firmware-qemu_fw_cfg).
	FirmwareConfig string

	// Given is the file that /init of a node which runs from memory leaves:
	// RunPath; "" if there is none.
	Given string

	// ESP reads from the EFI system partition; nil if the node has none.
	ESP ESP

	// Drives lists the drives with one of DriveLabels; nil if none are looked
	// for.
	Drives func() ([]Drive, error)
}

// New is the source that machine.yaml names.
func New(from machine.Source, env Env) Source {
	switch {
	case from.File != nil:
		return File{Path: from.File.Path}
	case from.ESP != nil:
		return espFile{esp: env.ESP, path: from.ESP.Path}
	case from.Credential != nil:
		return credential{dir: env.Credentials, name: from.Credential.Name}
	}
	return none{}
}

// never is the channel of a source that cannot change while the node runs.
func never(ctx context.Context) <-chan struct{} {
	changes := make(chan struct{})
	context.AfterFunc(ctx, func() { close(changes) })
	return changes
}
