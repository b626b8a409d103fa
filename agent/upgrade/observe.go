package upgrade

import (
	"errors"

	"github.com/loam-os/loam/agent/upgrade/disk"
	"github.com/loam-os/loam/firmware/bootdir"
)

// observe returns the state of the disk, and completes f for Preflight.
func (u *Upgrader) observe(f *Facts) (v View, err error) {
	esp, err := u.Disk.OpenESP()
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, esp.Close()) }()

	v, err = u.view(esp, Verdict{})
	if err != nil {
		return v, err
	}

	f.Room, err = room(u.writers().slot, u.Boot, esp, u.Records)
	if err != nil {
		return v, err
	}
	_, f.Room.Table = u.Disk.RepairTable()

	e, err := u.writers().floor.read()
	f.Arch = u.Disk.Arch
	f.ImageID = u.Boot.ImageID
	f.PCRKey = u.Boot.PCRKey
	f.Epoch = e.Floor
	f.Now = u.Now()

	return v, err
}

// view returns what [Next] decides on.
func (u *Upgrader) view(esp *disk.ESP, verdict Verdict) (View, error) {
	v := View{
		Running:   u.Boot.Running,
		Entry:     u.Boot.Entry,
		Filled:    u.filled,
		StagedUKI: esp.Staged(),
		Verdict:   verdict,
	}

	var err error
	v.Journal, err = u.writers().journal.read()
	if err != nil {
		return v, err
	}

	v.Failed, err = Failures(u.Records)
	if err != nil {
		return v, err
	}

	v.Holds, err = u.writers().slot.Holds()
	if err != nil {
		return v, err
	}

	v.Recovery = disk.Recovery{ESP: esp, Log: u.Log}.RootHash()
	v.Entries, err = esp.Entries()
	if err != nil && v.Recovery != v.Running.RootHash {
		return v, err
	}

	return v, u.writers().drills.follow(v)
}

// room returns the room for another system.
func room(slot disk.OtherSlot, boot Boot, esp *disk.ESP, state Records) (Room, error) {
	root, tree, err := slot.Size()
	if err != nil {
		return Room{}, err
	}

	entries, err := bootdir.Room(esp.FS)
	if err != nil {
		return Room{}, err
	}

	free, err := state.Free()
	return Room{
		Root:      root,
		Verity:    tree,
		ESP:       esp.Free(),
		Entries:   entries,
		State:     free,
		OtherDisk: boot.OtherDisk,
	}, err
}
