package fat

import "fmt"

// Reclaim frees clusters that no entry refers to, staged ones too, and the slots
// of lost long names. It makes both FATs equal, and the boot sector and its copy.
// The slots after the last entry of a [Uniform] directory go back to the writer
// that only appends.
// Reclaim keeps what an entry refers to: it takes each chain from FAT 1 if it
// is intact there, else from FAT 2 if it exists there. A chain that goes on to
// a free cluster in both FATs ends before that cluster, so that it never
// continues in a new file. If a directory is unreadable, its references are
// unknown: Reclaim then writes nothing and returns an error. It writes nothing
// either if there is nothing to do.
func (f *FS) Reclaim() error {
	s := f.survey()
	if s.partial {
		return fmt.Errorf("reclaim clusters: not all of the tree can be read: %v", s.broken)
	}
	if err := f.boot.repair(&f.disk, f.sectorSize); err != nil {
		return err
	}

	clear(f.staged)
	if err := f.repairFATs(s); err != nil {
		return fmt.Errorf("reclaim clusters: %w", err)
	}

	for _, d := range s.dirs {
		if err := d.tidy(); err != nil {
			return fmt.Errorf("reclaim slots of /%s: %w", d.path, err)
		}
	}

	if err := f.writeInfo(); err != nil {
		return fmt.Errorf("reclaim clusters: %w", err)
	}

	return nil
}
