package boot

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"github.com/google/uuid"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/loadoption"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/ext4"
	"github.com/loam-os/loam/partitions/verity"
)

// TemplatePath is the empty file system in the initramfs (ext4.Template).
const TemplatePath = "/state.ext4"

// stateMount mounts the state partition beneath the new root, once it is open.
type stateMount struct{ opener }

// mount mounts the state partition, or a tmpfs if it has none that works.
// If it is damaged, a unit repairs it in the running system.
func (m stateMount) mount(d *Decision) error {
	if d.State.Damage == nil && d.State.Device != "" {
		err := m.mountDisk(d)
		if err == nil {
			return nil
		}
		d.State.failed(err)
	}

	if d.State.Damage != nil {
		if err := m.liveWithout(d, *d.State.Damage); err != nil {
			return err
		}
	}

	return mount{
		source: "tmpfs",
		target: sysroot + "/var",
		fstype: "tmpfs",
		flags:  unix.MS_NODEV,
		data:   "mode=0755,size=50%",
	}.apply()
}

// liveWithout prepares a system whose state partition is damaged. A system that
// is in memory itself has no place to count its repairs, so it repairs nothing.
func (m stateMount) liveWithout(d *Decision, damage Damage) error {
	warning := hint.Sprintf("the state of the node is in memory, and lost with a restart: "+
		"state partition %s: %s", d.State.Device, damage.Reason)
	m.init.Say("%s", warning)

	if d.Memory {
		d.Warnings = append(d.Warnings, warning)
		d.State = State{}
		return nil
	}

	return startRepair("/run")
}

// mountDisk mounts the state partition. A file system that does not grow
// is smaller than it could be, but that must not stop the boot.
func (m stateMount) mountDisk(d *Decision) error {
	target := sysroot + "/var"
	if err := m.mountPrepared(d, target); err != nil {
		return err
	}

	mode := requested(sysroot)
	if mode != crypt.None && d.Encryption == crypt.None && !d.Memory {
		if err := m.startEncrypted(d, target, mode); err != nil {
			return fmt.Errorf("encrypt the state: %w", err)
		}
	}

	if d.State.Grow {
		if err := growFilesystem(target, d.State.Size); err != nil {
			d.Warnings = append(d.Warnings, hint.Text(err))
		}
	}

	return nil
}

// mountPrepared prepares the state partition and mounts it.
func (m stateMount) mountPrepared(d *Decision, target string) error {
	if err := m.prepare(d); err != nil {
		return err
	}

	state := mount{
		source: d.State.Device,
		target: target,
		fstype: "ext4",
		flags:  unix.MS_NODEV | unix.MS_NOATIME,
		data:   "errors=remount-ro",
	}
	if err := state.apply(); err != nil {
		return err
	}

	if err := probeState(d.State.Device, target); err != nil {
		return errors.Join(err, unix.Unmount(target, 0))
	}
	err := errors.Join(recordReset(sysroot, d.State.Mark.Reset),
		recordRecovery(sysroot, d.recovery))
	if err != nil {
		return errors.Join(err, unix.Unmount(target, 0))
	}
	return nil
}

// startEncrypted formats the mounted state partition again, encrypted, and
// mounts that.
func (m stateMount) startEncrypted(d *Decision, target string, mode crypt.Mode) error {
	if err := unix.Unmount(target, 0); err != nil {
		return fmt.Errorf("unmount %s: %w", target, err)
	}
	if err := mark(d.State.Device, crypt.Mark{Encrypt: mode}); err != nil {
		return err
	}

	d.State.Table = nil // It is written, or cannot be.
	d.State.Mark = crypt.Mark{Encrypt: mode}
	d.State.Repair = false
	d.State.Format = true
	d.State.Grow = true
	return m.mountPrepared(d, target)
}

// prepare writes the partition table and formats, as decided.
func (m stateMount) prepare(d *Decision) error {
	if d.State.Table != nil {
		m.writeTable(d)
	}
	s := d.State

	// The disk still has its name \EFI\BOOT, so this is best effort.
	if s.ESP != uuid.Nil {
		if err := renewOptions("/sys", d.RootHash, s.OldESP, s.ESP); err != nil {
			d.Warnings = append(d.Warnings, hint.Text(err))
		}
	}

	if err := m.open(d); err != nil {
		return err
	}
	s = d.State

	if s.Repair {
		if err := repairSuperblock(s.Device); err != nil {
			return fmt.Errorf("repair state partition %s: %w", s.Device, err)
		}
		m.init.Log("state partition %s: repaired the superblock after a power cut",
			s.Device)
	}

	if s.Format {
		if err := format(s.Device); err != nil {
			return fmt.Errorf("format state partition %s: %w", s.Device, err)
		}
		m.init.Log("state partition %s formatted", s.Device)
	}

	return nil
}

// writeTable writes the partition table. The state does not depend on it: on a
// disk whose end cannot be written, the partition keeps its size, and the disk
// its identity.
func (m stateMount) writeTable(d *Decision) {
	s := &d.State
	written, err := growPartition(d.Disk, *s)

	if s.TableDamage != "" {
		warning := fmt.Sprintf("partition table of %s: %s", d.Disk, s.TableDamage)
		if written {
			warning += "; repaired"
		}
		d.Warnings = append(d.Warnings, warning)
	}

	if err == nil {
		m.init.Log("partition table of %s written: disk %s, state partition of %d MiB",
			d.Disk, s.Table.DiskGUID, s.Size>>20)
		return
	}

	s.Size = s.Old.Partition(s.Index).Size
	if !written && byUUID(s.Old, s.ESP) == 0 {
		s.ESP = uuid.Nil
	}
	d.Warnings = append(d.Warnings, hint.Text(hint.With(
		fmt.Errorf("the state partition keeps its size of %d MiB: %w", s.Size>>20, err),
		"`dmesg` says more; the disk may be failing")))
}

// growPartition writes the table, and tells the kernel how large the state
// partition is in it. written means that the disk has the table.
func growPartition(disk string, s State) (written bool, err error) {
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	if err != nil {
		return false, fmt.Errorf("grow state partition: %w", err)
	}
	defer f.Close()

	if err := s.Table.Write(f); err != nil {
		return false, fmt.Errorf("disk %s: %w", disk, err)
	}

	// Tell the kernel the new size of the partition (linux/blkpg.h).
	part := unix.BlkpgPartition{Start: s.Start, Length: s.Size, Pno: int32(s.Index)}
	arg := unix.BlkpgIoctlArg{
		Op:      unix.BLKPG_RESIZE_PARTITION,
		Datalen: int32(unsafe.Sizeof(part)),
		Data:    (*byte)(unsafe.Pointer(&part)),
	}

	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), blkpg, uintptr(unsafe.Pointer(&arg)))
	if errno != 0 {
		return true, fmt.Errorf("grow partition %d of %s: %w", s.Index, disk, errno)
	}

	return true, nil
}

// renewOptions gives the firmware's boot options that start the ESP of the
// image, or with the UUID old unless that is nil, the UUID of the ESP of this disk.
// sys is the directory of sysfs.
func renewOptions(sys, rootHash string, old, esp uuid.UUID) error {
	hash, err := verity.ParseRootHash(rootHash)
	if err != nil {
		return err
	}

	options, err := loadoption.List(os.DirFS(sys))
	if err != nil {
		return err
	}

	for number, option := range options {
		renewed, ok := loadoption.Renew(option, partitions.ImageESP(hash), esp)
		if !ok && old != uuid.Nil {
			renewed, ok = loadoption.Renew(option, old, esp)
		}
		if !ok {
			continue
		}
		err := efivar.Write(sys, loadoption.Name(number), efivar.Global, renewed)
		if err != nil {
			return fmt.Errorf("renew the firmware's boot option: %w", err)
		}
	}

	return nil
}

func repairSuperblock(device string) error {
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(ext4.Repair(f), f.Sync(), f.Close())
}

// format writes the template. The first block makes it a file system and is
// written last and alone: after a power cut the partition still asks to be
// formatted.
func format(device string) error {
	text, err := os.ReadFile(TemplatePath)
	if err != nil {
		return err
	}

	t, err := ext4.DecodeTemplate(text)
	if err != nil {
		return err
	}

	id := uuid.New()
	seed := uuid.New()
	t = t.WithIdentity(id, seed)

	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()

	const first = 4096

	// From here on the partition is no longer blank: the mark says that it asks
	// to be formatted.
	if _, err := f.WriteAt([]byte(ext4.FormatMark), 0); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}

	// Old data on the disk must not look like a journal. The first block stays
	// until the end.
	if err := block.Zero(f, first, t.Size-first); err != nil {
		return err
	}

	for _, e := range t.Extents {
		if e.Offset == 0 {
			e = ext4.Extent{Offset: first, Data: e.Data[first:]}
		}
		if _, err := f.WriteAt(e.Data, e.Offset); err != nil {
			return err
		}
	}

	if err := f.Sync(); err != nil {
		return err
	}
	if _, err := f.WriteAt(t.Extents[0].Data[:first], 0); err != nil {
		return err
	}

	return f.Sync()
}

// blkpg is BLKPG: _IO(0x12, 105) (linux/blkpg.h).
const blkpg = 0x1269

// extResize is EXT4_IOC_RESIZE_FS: _IOW('f', 16, __u64) (fs/ext4/ext4.h).
const extResize = 1<<30 | 8<<16 | 'f'<<8 | 16

// growFilesystem grows the ext4 file system that is mounted at dir to size
// bytes.
func growFilesystem(dir string, size int64) error {
	f, err := os.Open(dir)
	if err != nil {
		return fmt.Errorf("grow file system: %w", err)
	}
	defer f.Close()

	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &fs); err != nil {
		return fmt.Errorf("grow file system %s: %w", dir, err)
	}

	blocks := uint64(size / fs.Bsize)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), extResize, uintptr(unsafe.Pointer(&blocks)))
	if errno != 0 {
		return fmt.Errorf("grow file system %s to %d blocks: %w", dir, blocks, errno)
	}

	return nil
}
