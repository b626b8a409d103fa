package live

import (
	"errors"
	"fmt"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// errUnauthenticated says that anyone on the network may have written
// machine.yaml.
var errUnauthenticated = errors.New("nothing proves who wrote it")

// authenticate returns an error unless machine.yaml comes from the operator.
// Every decision that depends on this calls it. An operator has plugged in the
// USB installer, but any server on the network may have answered first: only
// the system is verified, by the digests on the kernel's command line.
func (p Params) authenticate() error {
	if p.From == FromInstaller {
		return nil
	}
	return errUnauthenticated
}

// mayWipe returns an error if an installation would overwrite a disk because a
// machine.yaml says so that is not authenticated. The kernel's command line,
// which Secure Boot verifies, may allow it.
func (p Params) mayWipe(in machine.Install, origin string) error {
	if in.Wipe == "" || p.Wipe {
		return nil
	}
	if err := p.authenticate(); err != nil {
		return hint.With(
			fault.With(fmt.Errorf("wipe-not-authenticated: machine.yaml from %s asks to overwrite the "+
				"disk with serial number %q: %w", origin, in.Wipe, err), fault.WipeNotAuthenticated),
			"install from a USB stick, or build with loamctl build --network-wipe, which "+
				"puts %s=%s on the kernel command line", wipeParameter, FromNetwork,
		)
	}
	return nil
}
