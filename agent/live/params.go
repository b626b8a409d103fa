package live

import (
	"fmt"
	"strings"

	"github.com/loam-os/loam/agent/cmdline"
	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/verity"
)

// Params are what the kernel's command line says about the system. All but
// Server come from the maker of the image.
type Params struct {
	// From is FromNetwork or FromInstaller.
	From     string
	RootHash [32]byte

	// Disk is the SHA-256, in hex, of the packed disk image, "" for a system
	// that can only run from memory.
	Disk string

	// Server is a URL, "" if DHCP gives it.
	Server string

	// Trust has the keys that must have signed machine.yaml; without keys, it
	// needs no signature.
	Trust trust.Keys
}

// Sources of a system.
const (
	FromNetwork   = "network"
	FromInstaller = "stick"
)

// ParseParams reads roothash=, loam.disk=sha256:, loam.from= (FromNetwork if
// absent), loam.server= and loam.trust=.
func ParseParams(text string) (p Params, err error) {
	line := cmdline.Parse(text)
	hash, _ := line.Get("roothash")
	p.RootHash, err = verity.ParseRootHash(hash)
	if err != nil {
		return p, fmt.Errorf("kernel command line: roothash=: %w", err)
	}

	if disk, ok := line.Get("loam.disk"); ok {
		p.Disk, ok = strings.CutPrefix(disk, "sha256:")
		if !ok {
			return p, fmt.Errorf("kernel command line: loam.disk=%.80s: want sha256:, "+
				"and the sum of the packed disk image", disk)
		}
		if _, err := partitions.InstallerUUID(p.Disk); err != nil {
			return p, fmt.Errorf("kernel command line: loam.disk=: %w", err)
		}
	}

	p.Trust, err = trust.OfCmdline(text)
	if err != nil {
		return p, err
	}

	p.Server, _ = line.Get("loam.server")
	p.From = FromNetwork
	if from, ok := line.Get("loam.from"); ok {
		p.From = from
	}

	if p.From != FromNetwork && p.From != FromInstaller {
		return p, fmt.Errorf("kernel command line: loam.from=%s: want %s or %s",
			p.From, FromNetwork, FromInstaller)
	}

	return p, nil
}
