package build

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/ext4"
	"github.com/loam-os/loam/partitions/gpt"
)

// diskParts are the contents of a disk image.
type diskParts struct {
	rootFS, verity string // files
	uki            []byte
	loader         []byte // systemd-boot
}

// writeDisks writes the disk image in every form, and describes the packed one.
func (im images) writeDisks(ctx context.Context, parts diskParts) (manifest.File, error) {
	raw := im.file(".raw")
	const hint = "is there room on the disk?"
	err := im.steps.Do("disk image (raw)", hint, func(io.Writer) error {
		return writeRaw(raw, im.plan, parts)
	})
	if err != nil {
		return manifest.File{}, err
	}

	err = im.steps.Do("disk image (qcow2)", hint, func(io.Writer) error {
		return output.Convert(im.file(".qcow2"), raw, output.Qcow2, io.Discard)
	})
	if err != nil {
		return manifest.File{}, err
	}

	packed := im.file(".raw.zst")
	err = im.steps.Do("disk image (raw.zst)", hint, func(io.Writer) error {
		part := meter.Begin(ctx, "pack", im.plan.Table.DiskSize, im.steps.Progress)
		return output.Convert(packed, raw, output.Packed, part)
	})
	if err != nil {
		return manifest.File{}, err
	}

	return output.DescribeFile(im.dir, filepath.Base(packed), io.Discard)
}

// writeRaw writes the disk image as a sparse file, so that only used parts take
// room.
func writeRaw(file string, p image.Plan, in diskParts) (err error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()

	if err := f.Truncate(p.Table.DiskSize); err != nil {
		return fmt.Errorf("size of %s: %w", file, err)
	}

	if err := p.Table.Create(f); err != nil {
		return err
	}
	if err := writeESP(f, p, in); err != nil {
		return err
	}
	if err := writePart(f, p.Slot(partitions.Root), in.rootFS); err != nil {
		return err
	}

	if err := writePart(f, p.Slot(partitions.RootVerity), in.verity); err != nil {
		return err
	}

	state := p.Slot(partitions.State)
	_, err = f.WriteAt([]byte(ext4.FormatMark), state.Start)
	return err
}

func writePart(disk *os.File, part gpt.Partition, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()

	info, err := in.Stat()
	if err != nil {
		return err
	}

	if info.Size() > part.Size {
		return hint.With(
			fmt.Errorf("%s: %d MiB, its partition has %d MiB",
				file, info.Size()>>20, part.Size>>20),
			"leave packages out, or make the slots larger in partitions/*.conf")
	}

	if _, err := io.Copy(io.NewOffsetWriter(disk, part.Start), in); err != nil {
		return fmt.Errorf("write %s: %w", part.Label, err)
	}

	return nil
}

// loaderConfig configures systemd-boot without a menu (a key held at start
// still shows it) and without editing of command lines. There is no file
// loader/random-seed: the loader writes to it at each boot, which has damaged
// ESPs (systemd issues 42979, 42307).
const loaderConfig = "timeout 0\neditor no\n"

func writeESP(disk io.WriterAt, p image.Plan, in diskParts) error {
	part := p.Slot(partitions.ESP)
	files := []esp.File{
		{Path: loader.Path(p.Spec.Arch), Data: in.loader},
		{Path: p.UKI, Data: in.uki},
		{Path: loader.RecoveryUKI, Data: in.uki},
		{Path: loader.RecoveryEntry, Data: []byte(loader.RecoveryText), ReadOnly: true},
		{Path: loader.Conf, Data: []byte(loaderConfig)},
		{Path: "loader/entries.srel", Data: []byte("type1\n")},
	}

	id := uint32(p.RootHash[0])<<24 | uint32(p.RootHash[1])<<16 | uint32(p.RootHash[2])<<8 |
		uint32(p.RootHash[3])
	err := esp.Write(io.NewOffsetWriter(disk, part.Start), part.Size, p.Table.SectorSize, id, files)
	if err != nil {
		return fmt.Errorf("write ESP: %w", err)
	}

	return nil
}
