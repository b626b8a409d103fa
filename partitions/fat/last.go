package fat

import "fmt"

// LinkLast is Link to another place: the entry becomes the last of the
// directory and the first in its sector. Another writer that appends to the
// directory then changes the same sector, as long as there is room in it.
func (f *FS) LinkLast(dir, name string, c Chain, size int64) error {
	return f.linkStaged(dir, name, c, size, func(d *directory) error {
		return d.linkLast(name, c.first, size)
	})
}

// AddNameLast gives the content of an entry a second name, at the place of
// LinkLast. Both share their clusters until one is removed.
func (f *FS) AddNameLast(dir, from, to string) error {
	d, err := f.directory(dir)
	if err == nil {
		e, ok := d.find(from)
		if !ok {
			return fmt.Errorf("add a name: %w", notExist(join(dir, from)))
		}
		err = d.linkLast(to, e.first, e.Size)
	}
	if err != nil {
		return fmt.Errorf("link /%s/%s as %s: %w", dir, from, to, err)
	}
	return nil
}

// RoomLast is how many entries LinkLast can add to the directory, one after the
// other, if none is removed from its end.
func (f *FS) RoomLast(dir string) (int, error) {
	d, err := f.directory(dir)
	if err != nil {
		return 0, err
	}
	return max(0, d.slots()/perSector-d.lastSector()), nil
}
