package upgrade_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/loam-os/loam/agent/upgrade"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
	"github.com/loam-os/loam/test/firmware"
)

// boot is one start of the machine: which system the loader starts, with the
// try that it counts on the disk. An error is a machine that does not come up.
func (p fixture) boot(disk firmware.Disk) (upgrade.System, error) {
	table, err := gpt.Read(disk, p.table.DiskSize, sector)
	if err != nil {
		return upgrade.System{}, err
	}

	chosen, content, err := firmware.Start(disk, p.table.Partitions[0].Start)
	if err != nil {
		return upgrade.System{}, err
	}

	r, err := p.releaseOf(content)
	if err != nil {
		return upgrade.System{}, fmt.Errorf("%s: %w", chosen.Name, err)
	}

	return start(disk, r, table)
}

// releaseOf is the release whose UKI that is.
func (p fixture) releaseOf(content []byte) (release, error) {
	at := slices.IndexFunc(p.releases, func(r release) bool { return bytes.Equal(r.uki, content) })
	if at < 0 {
		return release{}, errors.New("no UKI that anybody made")
	}
	return p.releases[at], nil
}

// start is the UKI and /init: the system whose content is in the slot that the
// command line names.
func start(disk firmware.Disk, r release, table gpt.Table) (upgrade.System, error) {
	hash, err := verity.ParseRootHash(r.RootHash)
	if err != nil {
		return upgrade.System{}, err
	}

	for want, id := range map[string][16]byte{
		"root":      partitions.RootUUID(hash),
		"verity":    partitions.VerityUUID(hash),
		"signature": partitions.SigUUID(hash),
	} {
		i := slices.IndexFunc(table.Partitions, func(p gpt.Partition) bool {
			return [16]byte(p.UUID) == id
		})
		if i < 0 {
			return upgrade.System{}, fmt.Errorf("%s of %s, root hash %s: no such partition",
				want, r.Version, hex.EncodeToString(hash[:6]))
		}

		content := map[string][]byte{
			"root":      r.root,
			"verity":    r.verity,
			"signature": r.signature,
		}[want]

		have := make([]byte, len(content))
		_, _ = disk.ReadAt(have, table.Partitions[i].Start)
		if !bytes.Equal(have, content) {
			return upgrade.System{}, fmt.Errorf("%s of %s: its content is another", want, r.Version)
		}
	}

	return r.System, nil
}
