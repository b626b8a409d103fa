package live

import (
	"errors"
	"fmt"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// verify returns the machine.yaml in what a source has sent, or an error if
// keys are trusted and none of them has signed it. A node that runs from memory
// knows no earlier document, so that any serial number counts.
func (p Params) verify(text []byte, origin string) (source.Document, error) {
	sent := source.Document{Name: "machine.yaml from " + origin, Text: text}
	return source.Verify(sent, p.Trust, nil)
}

// errUnauthenticated says that anyone on the network may have written
// machine.yaml.
var errUnauthenticated = errors.New("nothing proves who wrote it")

// authenticate returns an error unless machine.yaml comes from the operator.
// Every decision that depends on this calls it. An operator has signed a
// document, or has plugged in the USB installer, but any server on the network
// may have answered first: only the system is verified, by the digests on the
// kernel's command line.
func (p Params) authenticate(d source.Document) error {
	if d.Verified || p.From == FromInstaller {
		return nil
	}
	return errUnauthenticated
}

// mayWipe returns an error if an installation would overwrite a disk because a
// machine.yaml says so that is not authenticated.
func (p Params) mayWipe(in machine.Install, d source.Document) error {
	if in.Wipe == "" {
		return nil
	}
	if err := p.authenticate(d); err != nil {
		return hint.With(
			fault.With(
				fmt.Errorf("wipe-not-authenticated: %s asks to overwrite the "+
					"disk with serial number %q: %w", d.Name, in.Wipe, err),
				fault.WipeNotAuthenticated,
			),
			"use a USB installer, or sign machine.yaml, and give the image the key: "+
				"loamctl build --machine-trust",
		)
	}
	return nil
}
