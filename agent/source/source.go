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

	// Kind is the kind of place that a machine.yaml was found in, and Serial
	// the serial number of its drive, "" if it has none.
	Kind   Kind
	Serial string

	// SignedSerial is the serial number of a signed machine.yaml, 0 for any
	// other. Verified says that keys are trusted, and that they let it count.
	SignedSerial uint64
	Verified     bool

	// Kept says that it is the copy that the node has of what it accepted, and
	// Original is [Accepted]'s.
	Kept     bool
	Original string

	// FromCluster says that a cluster made the document. It is decoded as the
	// cluster's own agent decodes it, which overlooks mistakes. A document that
	// an operator wrote is decoded strictly.
	FromCluster bool
}

// ErrAbsent is wrapped by the error of Read if there is no document. The node
// then keeps its configuration.
var ErrAbsent = errors.New("no document")

// ErrFetching is wrapped by the error of a decoder that has something fetched which
// a document needs, beside the loop. It is no fault of the node, which keeps its
// configuration and asks again. The decoder publishes how far the fetch is.
var ErrFetching = errors.New("being fetched")

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
	// RunPath; "" if none.
	Given string

	// ESP reads from the EFI system partition; nil if the node has none.
	ESP ESP

	// Drives lists the drives with one of DriveLabels; nil to look for none.
	Drives func() ([]Drive, error)

	// Accepted is the document that configured the node; nil before the first.
	// Then only its own drive is read. Configured says that the node has had a
	// configuration: then its copy counts, and no drive is read at all, unless a
	// signature may prove another text.
	Accepted   *Accepted
	Configured bool
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
