package fat

import (
	"bytes"
	"fmt"

	"github.com/loam-os/loam/partitions/fat/dirent"
)

// RenewDir replaces an unreadable directory by another with at least size bytes
// and these empty files, whose names are short, with one write of one sector.
// Reclaim frees the clusters that the old directory referred to.
func (f *FS) RenewDir(path string, size int64, empty ...string) error {
	if err := f.renewDir(path, size, empty); err != nil {
		return fmt.Errorf("replace /%s: %w", path, err)
	}
	return nil
}

func (f *FS) renewDir(path string, size int64, empty []string) error {
	d, e, err := f.lookup(path)
	if err != nil {
		return err
	}

	clusters, err := f.allocate(f.need(size))
	if err != nil {
		return err
	}

	content := make([]byte, int64(len(clusters))*f.clusterSize)
	set := dirent.DotSlots(clusters[0], d.first)
	for _, name := range empty {
		set = append(set, dirent.ShortSlot(dirent.Pad(name, ""), dirent.AttrArchive, 0, 0)...)
	}

	copy(content, set)
	c, err := f.Stage(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		return err
	}

	delete(f.staged, c.first)
	return d.point(e, c.first, 0)
}
