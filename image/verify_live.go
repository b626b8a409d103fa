package image

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
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
)

// verifyLive checks the files that a diskless node starts from: PXE set and USB
// installer must have one kernel and initramfs, and name the packed disk image
// of this build.
func verifyLive(dir string, out outputs, m manifest.Manifest) error {
	packed, _ := m.Output(".raw.zst")
	network := m.Cmdline + " loam.from=network loam.disk=sha256:" + packed.SHA256
	if m.LiveCmdline != network {
		return fmt.Errorf("command line of the PXE set %q; for %s it is %q",
			m.LiveCmdline, packed.Name, network)
	}

	sections, err := uki.Parse(out[pxeSuffix])
	if err != nil {
		return fmt.Errorf("*%s: %w", pxeSuffix, err)
	}

	for suffix, names := range map[string][]string{
		kernelSuffix: {".linux"},
		initrdSuffix: {".ucode", ".initrd"},
	} {
		var want []byte
		for _, name := range names {
			section, _ := sections.Section(name)
			want = append(want, section...)
		}
		if have, err := io.ReadAll(out[suffix]); err != nil || !bytes.Equal(have, want) {
			return errors.Join(err,
				fmt.Errorf("*%s is not what *%s has as %s",
					suffix, pxeSuffix, strings.Join(names, " and ")))
		}
	}

	if err := verifyStick(dir, out, m, packed); err != nil {
		return fmt.Errorf("*%s: %w", stickSuffix, err)
	}

	pxe := m
	pxe.Cmdline = m.LiveCmdline
	pxe.UKI = "*" + pxeSuffix

	return verifySections(sections, pxe)
}

// verifyStick checks the installer's stick.
func verifyStick(dir string, out outputs, m manifest.Manifest, packed manifest.File) error {
	want, err := stickTable(packed.SHA256)
	if err != nil {
		return err
	}

	disk := out[stickSuffix]
	table, err := gpt.Read(disk, want.DiskSize, want.SectorSize)
	if err != nil || !table.Source.Healthy() || len(table.Partitions) != 1 ||
		table.Partitions[0] != want.Partitions[0] {
		return errors.Join(err,
			fmt.Errorf("partitions %+v, want %+v", table.Partitions, want.Partitions))
	}

	p := table.Partitions[0]
	files := io.NewSectionReader(disk, p.Start, p.Size)

	content, err := os.ReadFile(filepath.Join(dir, packed.Name))
	if err != nil {
		return err
	}

	image, err := esp.Read(files, table.SectorSize, m.UKI)
	if err != nil {
		return err
	}

	for path, want := range map[string][]byte{
		partitions.InstallerFile: content,
		partitions.MachineFile:   []byte(stickMachine),
	} {
		have, err := esp.Read(files, table.SectorSize, path)
		if err != nil || !bytes.Equal(have, want) {
			return errors.Join(err,
				fmt.Errorf("%s: %d bytes that are not the %d it should have",
					path, len(have), len(want)))
		}
	}
	if _, err := esp.Read(files, table.SectorSize, loader.Path(m.Arch)); err != nil {
		return err
	}

	sections, err := uki.Parse(bytes.NewReader(image))
	if err != nil {
		return err
	}

	stick := m
	stick.Cmdline = strings.Replace(m.LiveCmdline, "loam.from=network", "loam.from=stick", 1)
	return verifySections(sections, stick)
}
