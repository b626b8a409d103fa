package fat

import (
	"bytes"
	"fmt"

	"github.com/loam-os/loam/partitions/fat/dirent"
)

// RenewBootDir replaces an unreadable BootDir by an empty one, with one write
// of one sector. Reclaim frees the clusters that the old one referred to.
func (f *FS) RenewBootDir() error {
	if err := f.renewBootDir(); err != nil {
		return fmt.Errorf("replace /%s: %w", BootDir, err)
	}
	return nil
}

func (f *FS) renewBootDir() error {
	d, e, err := f.lookup(BootDir)
	if err != nil {
		return err
	}

	clusters, err := f.allocate(f.need(dirent.BootDirSize))
	if err != nil {
		return err
	}

	content := make([]byte, int64(len(clusters))*f.clusterSize)
	set := dirent.DotSlots(clusters[0], d.first)
	for _, name := range dirent.BootFillers() {
		set = append(set, dirent.ShortSlot(dirent.Pad(name, ""), dirent.AttrArchive, 0, 0)...)
	}

	copy(content, set)
	c, err := f.Stage(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return err
	}

	delete(f.staged, c.first)
	dirent.Point(d.at(e.last()), c.first, 0)
	return f.writeSector(d, e.last()/perSector)
}
