package output

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/google/uuid"

	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
)

// installerSize is the size of a USB installer's file system in bytes: FAT32
// with clusters of 8 KiB has at least 512 MiB.
const installerSize = 768 << 20

// InstallerTable returns the partition table of the USB installer that has the
// packed disk image with the SHA-256, in hex. USB drives have sectors of 512
// bytes.
func InstallerTable(sum string) (gpt.Table, error) {
	id, err := partitions.InstallerUUID(sum)
	if err != nil {
		return gpt.Table{}, err
	}

	return gpt.Table{
		DiskGUID:   uuid.NewSHA1(id, []byte("disk")),
		SectorSize: 512,
		DiskSize:   installerSize + 2*gpt.Alignment,
		Partitions: []gpt.Partition{{
			Index: 1,
			Type:  partitions.BasicData,
			UUID:  id,
			Label: partitions.InstallerLabel,
			Start: gpt.Alignment,
			Size:  installerSize,
		}},
	}, nil
}

// WriteInstaller writes a USB installer with the files. One of them is the
// packed disk image with the SHA-256, in hex.
func WriteInstaller(file, sum string, files []esp.File) (err error) {
	table, err := InstallerTable(sum)
	if err != nil {
		return err
	}

	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()

	part := table.Partitions[0]
	err = errors.Join(f.Truncate(table.DiskSize), table.Create(f),
		esp.Write(io.NewOffsetWriter(f, part.Start), part.Size, table.SectorSize,
			part.UUID.ID(), files))
	if err != nil {
		return fmt.Errorf("write installer: %w", err)
	}

	return nil
}

// InstallerMachine is the machine.yaml of a new USB installer: it installs
// nothing.
const InstallerMachine = `# What a machine that starts from this drive becomes. Say which disk it installs
# itself on; without that it runs from memory and touches no disk. On the console
# it says what it did, or why not, and which disks it has.
apiVersion: loam.dev/v1alpha1
kind: Machine

# install:
#   disk: {serial: S3Z8NB0K}    # or path, model, minSize, maxSize, onlyEmpty: true
#   wipe: S3Z8NB0K              # only if all that is on that disk may go
`
