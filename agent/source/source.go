// Package source finds and reads the documents of a node: its machine.yaml and,
// from the source that it names, the configuration.
//
// machine.yaml is looked for in loam.config= on the kernel command line, in the
// credential loam.machine (SMBIOS, fw_cfg: systemd imports both), in fw_cfg, in
// /run/loam on a node that runs from memory, in loam/ on the ESP, and on a
// drive labelled LOAM or CIDATA. An error in one place is an error, never a
// silent step to the next. Nothing waits for drives: when a relevant drive
// appears, the agent ends and starts again with its machine.yaml.
package source

import (
	"context"
	"errors"

	"github.com/loam-os/loam/agent/machine"
)

// Document is a text and the name of its place. Version is the place's version
// of the text and Hostname the node's name there; "" if it has none.
type Document struct {
	Name     string
	Text     []byte
	Version  string
	Hostname string

	// FromCluster says that a cluster made the document. It is decoded as the
	// cluster's own agent decodes it, which overlooks mistakes. A document that
	// an operator wrote is decoded strictly.
	FromCluster bool
}

// ErrAbsent is wrapped by the error of Read if there is no document. The node
// then keeps its configuration.
var ErrAbsent = errors.New("no document")

// Source is a place of a document.
type Source interface {
	// Read reads the present document. Errors name the place.
	Read(ctx context.Context) (Document, error)
	// Watch sends whenever the document may have changed, appeared or gone, at
	// least once after the last change. The channel closes when ctx ends, or
	// earlier if watching has become impossible. To miss nothing, call it
	// before the first Read.
	Watch(ctx context.Context) (<-chan struct{}, error)
}

// Env is the node's environment for finding documents.
type Env struct {
	// Cmdline is the text of /proc/cmdline.
	Cmdline string

	// Credentials is $CREDENTIALS_DIRECTORY, where systemd puts credentials; it
	// takes them from SMBIOS OEM strings too (systemd.system-credentials(7)).
	Credentials string

	// FirmwareConfig is the directory of the files that QEMU passes by name
	// (fw_cfg; Documentation/ABI/testing/sysfs-firmware-qemu_fw_cfg).
	FirmwareConfig string

	// Given is the file that /init leaves on a node which runs from memory,
	// RunPath; "" for none.
	Given string

	// ESP reads from the EFI system partition; nil if the node has none.
	ESP ESP

	// Drives lists the drives with one of DriveLabels; nil to look for none.
	Drives func() ([]Drive, error)
}

// New returns the source that machine.yaml names.
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
