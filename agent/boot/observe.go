package boot

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/google/uuid"

	"github.com/loam-os/loam/agent/block"
	"github.com/loam-os/loam/agent/crypt"
	"github.com/loam-os/loam/firmware/efivar"
	"github.com/loam-os/loam/firmware/loadoption"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/ext4"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// noSystem are the kinds of devices that cannot hold a system: drives whose
// medium can be missing, what the kernel makes of memory, files or disks, and
// disks of the network that no firmware starts from.
var noSystem = []block.Kind{
	block.RAM,
	block.ZRAM,
	block.Loop,
	block.Mapped,
	block.RAID,
	block.ZVol,
	block.NBD,
	block.RBD,
	block.DRBD,
	block.Optical,
	block.Floppy,
}

// Observe reads the facts. It changes nothing. A disk that cannot be read is a
// fact, too (Disk.Problem).
func Observe() (Facts, error) {
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return Facts{}, fmt.Errorf("read kernel command line: %w", err)
	}

	id, err := partitions.NewIdentity(rand.Reader)
	if err != nil {
		return Facts{}, err
	}

	sys := os.DirFS("/sys")
	f := Facts{
		Arch:            runtime.GOARCH,
		Cmdline:         strings.TrimSpace(string(text)),
		LoaderPartition: loaderPartition(sys),
		BootOption:      bootOption(sys),
		Counted:         isCounted(sys),
		Identity:        id,
	}

	disks, err := block.List(os.DirFS("/"), noSystem...)
	if err != nil {
		return Facts{}, fmt.Errorf("list disks: %w", err)
	}

	for _, d := range disks {
		if d.Size > 0 {
			f.Disks = append(f.Disks, observeDisk(d))
		}
	}

	return f, nil
}

// loaderPartition returns the EFI variable LoaderDevicePartUUID (Boot Loader
// Interface).
func loaderPartition(sys fs.FS) uuid.UUID {
	value, err := efivar.Read(sys, "LoaderDevicePartUUID", efivar.Loader)
	if err != nil {
		return uuid.Nil
	}
	id, err := uuid.Parse(efivar.Text(value))
	if err != nil {
		return uuid.Nil
	}
	return id
}

// isCounted reports whether the boot loader has the EFI variable
// LoaderBootCountPath, which it sets for an entry with tries (Boot Loader
// Interface). One that cannot be read is there, too.
func isCounted(sys fs.FS) bool {
	_, err := efivar.Read(sys, "LoaderBootCountPath", efivar.Loader)
	return !errors.Is(err, fs.ErrNotExist)
}

// bootOption returns the boot option that the firmware started (UEFI 2.10,
// 3.3).
func bootOption(sys fs.FS) loadoption.Location {
	current, err := efivar.Read(sys, "BootCurrent", efivar.Global)
	if err != nil || len(current) < 2 {
		return loadoption.Location{}
	}

	name := loadoption.Name(loadoption.ParseOrder(current)[0])
	option, err := efivar.Read(sys, name, efivar.Global)
	if err != nil {
		return loadoption.Location{}
	}
	l, err := loadoption.Locate(option)
	if err != nil {
		return loadoption.Location{}
	}
	return l
}

// observeDisk reads the partition table of a disk and what its partitions hold.
func observeDisk(b block.Disk) Disk {
	d := Disk{
		Device:     block.Node(b.Name),
		Hardware:   block.Hardware(os.DirFS("/"), b.Name),
		Size:       b.Size,
		SectorSize: b.SectorSize,
		Removable:  b.Removable,
		ReadOnly:   b.ReadOnly,
	}
	if err := d.readTable(filepath.Join("/sys/block", b.Name)); err != nil {
		d.Problem = err.Error()
	}
	return d
}

func (d *Disk) readTable(dir string) error {
	f, err := os.Open(d.Device)
	if err != nil {
		return err
	}
	defer f.Close()

	table, err := gpt.Read(f, d.Size, d.SectorSize)
	if err != nil {
		return err
	}

	if !table.Source.Healthy() {
		d.Damage = damage(table.Source)
	}

	table.Source = gpt.Source{Used: table.Source.Used} // Errors cannot be stored as JSON.
	d.Table = &table
	d.Contents = map[int]Content{}
	nodes := block.Partitions(dir)
	for _, p := range table.Partitions {
		d.Contents[p.Index] = observeContent(f, p, nodes[p.Index])
	}

	return nil
}

func damage(s gpt.Source) string {
	if s.Primary != nil {
		return "primary copy: " + s.Primary.Error()
	}
	return "backup copy: " + s.Backup.Error()
}

// observeContent reads the partitions that Decide needs.
func observeContent(disk io.ReaderAt, p gpt.Partition, node string) Content {
	c := Content{Device: node}
	r := io.NewSectionReader(disk, p.Start, p.Size)
	switch p.Type {
	case partitions.TypeUUID(partitions.RootVerity, runtime.GOARCH):
		sb, err := verity.ReadSuperblock(r)
		if err != nil {
			c.Problem = err.Error()
			return c
		}
		c.Verity = &sb
	case partitions.TypeUUID(partitions.State, runtime.GOARCH):
		found := ObserveState(r)
		found.Device = node
		return found
	}
	return c
}

// blankProbe is how much of a partition must be zero to call it empty.
const blankProbe = 1 << 20

// ObserveState reads what a state partition, or the container on it, holds.
func ObserveState(r io.ReaderAt) (c Content) {
	sb, err := ext4.ReadSuperblock(r)
	if err == nil {
		c.Filesystem = FilesystemExt4
		c.FilesystemSize = sb.Size()
		c.Errors = sb.Errors
		c.NoJournal = sb.NoJournal
		return c
	}

	// The mark goes before every copy of a superblock: the partition is to lose
	// what it holds.
	start := make([]byte, blankProbe)
	_, startErr := r.ReadAt(start, 0)
	if startErr == nil && bytes.HasPrefix(start, []byte(ext4.FormatMark)) {
		c.Filesystem = FilesystemEmpty
		c.Mark = crypt.ReadMark(start)
		return c
	}

	// A container goes before the copies of an older file system, which may be
	// left in what it has not written yet.
	if found, err := crypt.Find(r); found {
		c.Filesystem = FilesystemLUKS
		if err != nil {
			c.Problem = err.Error()
		}
		return c
	}

	if sb, _, err := ext4.Repaired(r); err == nil {
		c.Filesystem = FilesystemCorrupt
		c.FilesystemSize = sb.Size()
		c.Errors = sb.Errors
		c.NoJournal = sb.NoJournal
		return c
	}

	backup, backupErr := ext4.ReadBackup(r)
	switch {
	case !errors.Is(err, ext4.ErrNotExt4),
		backupErr == nil && backup.Label == partitions.StateLabel:
		c.Filesystem = FilesystemDamaged
		c.Problem = err.Error()
	case startErr != nil:
		c.Filesystem = FilesystemOther
		c.Problem = startErr.Error()
	case len(bytes.Trim(start, "\x00")) == 0:
		c.Filesystem = FilesystemEmpty
	default:
		c.Filesystem = FilesystemOther
	}
	return c
}
