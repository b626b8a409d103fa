package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
)

// verifyLive checks the files that a diskless node starts from: PXE set and USB
// installer must have one kernel and initramfs, and name the packed disk image
// of this build.
func verifyLive(dir string, out outputs, m manifest.Manifest, part *meter.Part) error {
	packed, _ := m.Output(packedSuffix)
	network := m.Cmdline + " loam.from=network loam.disk=sha256:" + packed.SHA256
	if m.LiveCmdline != network {
		return fmt.Errorf("command line of the PXE set %q; for %s it is %q",
			m.LiveCmdline, packed.Name, network)
	}

	sections, err := uki.Parse(out[image.PXESuffix])
	if err != nil {
		return fmt.Errorf("*%s: %w", image.PXESuffix, err)
	}

	for suffix, names := range map[string][]string{
		image.KernelSuffix: {".linux"},
		image.InitrdSuffix: {".ucode", ".initrd"},
	} {
		var want []byte
		for _, name := range names {
			section, _ := sections.Section(name)
			want = append(want, section...)
		}
		if have, err := io.ReadAll(out[suffix]); err != nil || !bytes.Equal(have, want) {
			return errors.Join(err,
				fmt.Errorf("*%s is not what *%s has as %s",
					suffix, image.PXESuffix, strings.Join(names, " and ")))
		}
	}

	if err := verifyInstaller(dir, out, m, packed, part); err != nil {
		return fmt.Errorf("*%s: %w", image.InstallerSuffix, err)
	}

	pxe := m
	pxe.Cmdline = m.LiveCmdline
	pxe.UKI = "*" + image.PXESuffix

	return verifySections(sections, pxe)
}

// verifyInstaller checks the USB installer.
func verifyInstaller(
	dir string, out outputs, m manifest.Manifest, packed manifest.File, part *meter.Part,
) error {
	want, err := output.InstallerTable(packed.SHA256)
	if err != nil {
		return err
	}

	disk := out[image.InstallerSuffix]
	table, err := gpt.Read(disk, want.DiskSize, want.SectorSize)
	if err != nil || table.Source.Fault() != nil || len(table.Partitions) != 1 ||
		table.Partitions[0] != want.Partitions[0] {
		return errors.Join(err,
			fmt.Errorf("partitions %+v, want %+v", table.Partitions, want.Partitions))
	}

	p := table.Partitions[0]
	files := io.NewSectionReader(disk, p.Start, p.Size)

	if err := verifyInstallerDisk(dir, files, table.SectorSize, packed, part); err != nil {
		return err
	}

	system, err := esp.Read(files, table.SectorSize, m.UKI)
	if err != nil {
		return err
	}

	machine, err := esp.Read(files, table.SectorSize, partitions.MachineFile)
	if err != nil {
		return err
	}
	if string(machine) != output.InstallerMachine {
		return hint.With(fmt.Errorf("%s: not as this loamctl writes it", partitions.MachineFile),
			"verify it with the loamctl that has built it, or build it again")
	}

	if _, err := esp.Read(files, table.SectorSize, loader.Path(m.Arch)); err != nil {
		return err
	}

	sections, err := uki.Parse(bytes.NewReader(system))
	if err != nil {
		return err
	}

	installer := m
	installer.Cmdline = strings.Replace(m.LiveCmdline, "loam.from=network", "loam.from=stick", 1)
	return verifySections(sections, installer)
}

// verifyInstallerDisk compares the packed disk on the installer with the file
// of the build.
func verifyInstallerDisk(
	dir string, files io.ReaderAt, sectorSize int, packed manifest.File, part *meter.Part,
) error {
	want, err := os.Open(filepath.Join(dir, packed.Name))
	if err != nil {
		return err
	}
	defer want.Close()

	have, err := esp.Open(files, sectorSize, partitions.InstallerFile)
	if err != nil {
		return err
	}

	err = compare(io.TeeReader(have, part), want)
	if err != nil {
		return fmt.Errorf("%s: %w", partitions.InstallerFile, err)
	}
	return nil
}

// compare returns an error unless have is what want is.
func compare(have io.Reader, want *os.File) error {
	same, err := sameContent(have, want)
	switch {
	case err != nil: // An interruption is no difference.
		return err
	case !same:
		return fmt.Errorf("differs from %s", filepath.Base(want.Name()))
	}
	return nil
}

// sameContent reports whether both readers have the same bytes. It reads pieces
// of 4 MiB.
func sameContent(a, b io.Reader) (bool, error) {
	const piece = 4 << 20
	one := make([]byte, piece)
	other := make([]byte, piece)

	for {
		n, err := io.ReadFull(a, one)
		if err != nil && !isEnd(err) {
			return false, err
		}

		m, otherErr := io.ReadFull(b, other)
		if otherErr != nil && !isEnd(otherErr) {
			return false, otherErr
		}

		if !bytes.Equal(one[:n], other[:m]) {
			return false, nil
		}
		if err != nil || otherErr != nil {
			return isEnd(err) && isEnd(otherErr), nil
		}
	}
}

// isEnd reports whether io.ReadFull met the end of its reader.
func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}
