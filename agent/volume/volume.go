package volume

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/mount"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/partitions/luks"
)

// Mountpoint is where the data volume is mounted: the kubelet's directory.
const Mountpoint = "/var/lib/kubelet"

// Options of the mount: project quota limits the space of pods.
const options = "prjquota"

// System is the part of a machine that a Volume changes.
type System interface {
	// Run runs a command. If it fails, the error has a method ExitCode() int.
	Run(ctx context.Context, command []string) error
	Mount(device, dir, fileSystem, options string) error
	// Map maps the data of a container by the parameters of dm-crypt, and
	// returns the device.
	Map(name string, h *luks.Header, table string, size int64) (device string, err error)
	Unmount(dir string) error
	// Empty deletes the content of a directory, except what is mounted there.
	Empty(dir string) error
}

// Volume is a volume of a purpose that a machine has, or is to have.
type Volume struct {
	For     *Purpose
	Machine Machine
	Maker   Maker
	System  System

	// Dir is the root directory, Path its name.
	Dir  *durable.Dir
	Path string

	// Encrypt is set on a node whose state is encrypted: a new volume is, too.
	Encrypt bool

	// InUse reports whether the directory at the mountpoint is in use now, so that
	// nothing can be mounted there. It is nil in a process that the unit waits for.
	InUse func(ctx context.Context) bool
}

// State describes a mounted volume; the zero State means that no volume is
// mounted.
type State struct {
	// Device is the disk or partition. Mapped is the decrypted device on it, ""
	// if the volume is not encrypted.
	Device, Mapped string
	FileSystem     string
	// Size is the size of the disk in bytes; 0 if it is gone.
	Size int64
	// Warnings are for the operator.
	Warnings []string
}

// ErrInUse says that the volume has to wait for a restart of the machine.
var ErrInUse = hint.With(fault.With(errors.New("the kubelet is running without its data volume"),
	fault.InUse),
	"the volume is made when the machine restarts, before the kubelet starts")

// Ensure makes the volume that the record claims, if need be, and mounts
// it. Without a record it changes nothing.
func (v Volume) Ensure(ctx context.Context) (State, error) {
	s, err := v.ensure(ctx, v.take)
	if v.Encrypt && s.Device != "" && s.Mapped == "" {
		s.Warnings = append(s.Warnings, notEncrypted(v.For))
	}
	return s, err
}

// take makes the volume that was chosen, unless there is one, and copies to it what
// is at its mountpoint.
func (v Volume) take(ctx context.Context, record *Record, f Facts, c Choice) error {
	if v.Encrypt && c.Action == ToUse && c.Container == "" {
		return fmt.Errorf("%s: %w", c.Device, errPlain(v.For))
	}
	if err := v.blockUnit(ctx); err != nil {
		return err
	}
	if err := v.CheckUnused(); err != nil {
		return err
	}

	if c.Action != ToUse {
		in, err := v.container(record)
		if err != nil {
			return err
		}
		err = v.Maker.Make(ctx, c, record.FileSystem, disk(f, c).SectorSize, in)
		if err != nil {
			return err
		}
		c.FileSystem = record.FileSystem
		c.Container = record.Encryption.UUID
	}

	c, err := v.open(*record, c)
	if err != nil {
		return err
	}
	if !v.For.Migrates {
		return nil
	}
	return v.migrate(ctx, f, c)
}

// container returns the container for a new volume, nil on a node without
// encryption. Its key is recorded before the disk has it.
func (v Volume) container(record *Record) (*Container, error) {
	if !v.Encrypt {
		return nil, nil
	}
	in, err := newContainer(v.Dir.Root().FS())
	if err != nil {
		return nil, err
	}
	record.Encryption = Encryption{UUID: in.UUID.String(), Key: hex.EncodeToString(in.Key)}
	return in, v.For.WriteRecord(v.Dir, *record)
}

// ErrNew says that there is a volume, or a disk for one, that the node has not
// had before.
var ErrNew = errors.New("the volume is not made yet")

// Mount mounts the volume that the node has had before. It makes none.
func (v Volume) Mount(ctx context.Context) (State, error) {
	return v.ensure(ctx, func(context.Context, *Record, Facts, Choice) error { return ErrNew })
}

// ensure mounts a volume that the node has had. It calls take to prepare any
// other volume first.
func (v Volume) ensure(
	ctx context.Context, take func(context.Context, *Record, Facts, Choice) error,
) (State, error) {
	unlock, err := lock(v.Dir)
	if err != nil {
		return State{}, err
	}
	defer unlock()

	record, claimed, err := v.For.ReadRecord(v.Dir.Root().FS())
	if err != nil || !claimed {
		return State{}, err
	}

	s, err := v.Mounted()
	if err != nil || (s.Device != "" && record.Made) {
		return s, err
	}

	facts, choice, err := v.choose(record)
	switch {
	case err != nil:
		return State{}, err
	case s.Device == choice.Device:
		return s, v.For.recordMade(v.Dir, record)
	case s.Device != "":
		return State{}, fmt.Errorf("%s is mounted at %s, and is not the %s",
			s.Device, v.For.Mountpoint, v.For.Name)
	case v.InUse != nil && v.InUse(ctx):
		return State{}, v.For.InUse
	}

	if choice.Action != ToUse || !record.Made {
		if err := take(ctx, &record, facts, choice); err != nil {
			return State{}, err
		}
		facts, choice, err = v.choose(record)
		if err != nil {
			return State{}, err
		}
	}

	choice, err = v.open(record, choice)
	if err != nil {
		return State{}, err
	}
	if err := v.mountAt(ctx, facts, choice, v.For.Mountpoint); err != nil {
		return State{}, err
	}

	s, err = v.Mounted()
	if choice.Grow {
		s.Warnings = v.grow(ctx, choice)
	}

	return s, errors.Join(err, v.For.recordMade(v.Dir, record))
}

// blockUnit prevents the start of the unit while a volume is made. It returns InUse of
// the purpose if the unit is running already.
func (v Volume) blockUnit(ctx context.Context) error {
	if v.For.DeferFile != "" {
		if err := v.Dir.Remove(v.For.DeferFile); err != nil {
			return err
		}
	}
	if !v.InUse(ctx) {
		return nil
	}
	return errors.Join(v.For.InUse, v.Defer())
}

// Defer lets the unit run without its volume until the machine restarts, if it may.
func (v Volume) Defer() error {
	if v.For.DeferFile == "" {
		return nil
	}
	return v.Dir.WriteVolatile(v.For.DeferFile, nil, 0o644)
}

// choose observes the disks and decides.
func (v Volume) choose(record Record) (Facts, Choice, error) {
	disks, err := Observe(v.Machine)
	if err != nil {
		return Facts{}, Choice{}, err
	}
	rivals, err := v.For.rivals(v.Dir.Root().FS())
	if err != nil {
		return Facts{}, Choice{}, err
	}
	facts := Facts{
		Disks:     disks,
		Made:      record.Made,
		Container: record.Encryption.UUID,
		Field:     v.For.Field,
		Rivals:    rivals,
	}
	choice, err := Decide(facts, record.Claim)
	return facts, choice, err
}

// rivals returns the claims of the other volumes of the node with that root
// directory.
func (p *Purpose) rivals(root fs.FS) ([]Rival, error) {
	var all []Rival
	for _, other := range Purposes() {
		if other == p {
			continue
		}
		record, claimed, err := other.ReadRecord(root)
		if err != nil {
			return nil, err
		}
		if claimed {
			all = append(all, Rival{other.Field, record.Claim})
		}
	}
	return all, nil
}

// recordMade records that the node has a volume.
func (p *Purpose) recordMade(root *durable.Dir, record Record) error {
	if record.Made {
		return nil
	}
	record.Made = true
	return p.WriteRecord(root, record)
}

// CheckUnused returns why a new volume would hide what is at its mountpoint. A volume
// that migrates hides nothing.
func (v Volume) CheckUnused() error {
	if v.For.Migrates {
		return nil
	}
	has, err := hasContent(os.DirFS(filepath.Join(v.Path, v.For.Mountpoint)), "")
	if err != nil || !has {
		return err
	}
	return hint.With(fault.With(
		fmt.Errorf("%s has data of %s, which the %s would hide", v.For.Mountpoint, v.For.User, v.For.Name),
		fault.CannotBeApplied,
	), "leave %s out, or reset the node: the data are lost then", v.For.Field)
}

// migrate copies the data at the mountpoint to a volume that the node has not had
// before.
func (v Volume) migrate(ctx context.Context, f Facts, c Choice) error {
	const scratch = "/run/loam/data-volume"
	if err := v.Dir.MkdirAll(scratch[1:]); err != nil {
		return err
	}

	// A process that was killed may have left its mount.
	_ = v.System.Unmount(filepath.Join(v.Path, scratch))
	if err := v.mountAt(ctx, f, c, scratch); err != nil {
		return err
	}

	from := filepath.Join(v.Path, v.For.Mountpoint)
	all, err := migrate(
		ctx,
		from,
		filepath.Join(v.Path, scratch),
		func(ctx context.Context, from, to string) error {
			return v.System.Run(ctx,
				[]string{"cp", "--archive", "--one-file-system", from + "/.", to})
		},
		nil,
	)

	err = errors.Join(err, v.System.Unmount(filepath.Join(v.Path, scratch)))
	if err != nil || !all {
		return err
	}

	return v.System.Empty(from) // The volume would hide it.
}

// mountAt checks the file system and mounts the volume at dir. A volume that
// Gardener made may have no project quota.
func (v Volume) mountAt(ctx context.Context, f Facts, c Choice, dir string) error {
	if err := v.Dir.MkdirAll(dir[1:]); err != nil {
		return err
	}

	if len(disk(f, c).Uses) == 0 && c.FileSystem == "ext4" {
		err := v.System.Run(ctx, []string{"e2fsck", "-p", c.Device})
		if err != nil && exitCode(err) != repaired {
			return hint.With(fmt.Errorf("check %s %s: %w", v.For.Name, c.Device, err),
				"nothing on it is touched; `e2fsck -f %s` from a debug shell repairs it, "+
					"and may lose files", c.Device)
		}
	}

	err := v.System.Mount(c.Device, filepath.Join(v.Path, dir), c.FileSystem, options)
	if errors.Is(err, unix.EINVAL) {
		err = v.System.Mount(c.Device, filepath.Join(v.Path, dir), c.FileSystem, "")
	}

	if err != nil {
		return fmt.Errorf("mount %s %s at %s: %w", v.For.Name, c.Device, dir, err)
	}

	return nil
}

// repaired is the exit status of e2fsck(8) when it has repaired all errors.
const repaired = 1

func exitCode(err error) int {
	var exited interface{ ExitCode() int }
	if errors.As(err, &exited) {
		return exited.ExitCode()
	}
	return -1
}

// grow grows a mounted volume to the size of its device. A volume that does not
// grow is smaller than it could be, but can be used.
func (v Volume) grow(ctx context.Context, c Choice) (warnings []string) {
	command := []string{"resize2fs", c.Device}
	if c.FileSystem == "xfs" {
		command = []string{"xfs_growfs", filepath.Join(v.Path, v.For.Mountpoint)}
	}
	if err := v.System.Run(ctx, command); err != nil {
		warnings = append(warnings,
			fmt.Sprintf("%s %s: its disk has grown, but the file system has not: %v",
				v.For.Name, c.Device, err))
	}
	return warnings
}

// Mounted returns the volume that is mounted.
func (v Volume) Mounted() (State, error) {
	text, err := v.Dir.Root().ReadFile(mount.Path)
	if err != nil {
		return State{}, fmt.Errorf("list mounts: %w", err)
	}

	m, _ := mount.Parse(string(text)).At(v.For.Mountpoint)
	if m.Source == "" {
		return State{}, nil
	}
	s := State{Device: m.Source, FileSystem: m.FileSystem}
	if v.Machine.isMapping(m.Source, v.For.Mapping) {
		s.Mapped = m.Source
		s.Device = v.Machine.beneath(m.Source)
	}
	s.Size = v.Machine.number(sizeFile(s.Device)) * 512
	if s.Device == "" { // The disk is gone, and its mapping stays.
		s.Device = m.Source
		s.Size = 0
	}
	return s, nil
}

func sizeFile(device string) string {
	return "sys/class/block/" + strings.ReplaceAll(strings.TrimPrefix(device, "/dev/"),
		"/", "!") + "/size"
}

// lock prevents two processes from changing volumes at the same time, also for another
// purpose.
func lock(dir *durable.Dir) (unlock func(), err error) {
	if err := dir.MkdirAll("run/loam"); err != nil {
		return nil, err
	}

	f, err := durable.Lock(dir.Root(), "run/loam/data-volume.lock")
	if err != nil {
		return nil, fmt.Errorf("lock the volumes: %w", err)
	}

	return func() { f.Close() }, nil
}

// disk returns the disk that the choice is on.
func disk(f Facts, c Choice) Disk {
	for _, d := range f.Disks {
		if d.Device == c.Device {
			return d
		}
		for _, p := range d.Parts {
			if p.Device == c.Device {
				return d
			}
		}
	}
	return Disk{}
}
