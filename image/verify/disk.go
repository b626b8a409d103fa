package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/pcrsig"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// verifyDisk checks what the manifest says about the disk image.
func verifyDisk(
	out outputs, m manifest.Manifest, signature *verity.Signature, part *meter.Part,
) error {
	disk := out[".raw"]
	table, err := gpt.Read(disk, m.DiskSize, m.SectorSize)
	if err != nil {
		return err
	}

	if err := table.Source.Fault(); err != nil {
		return fmt.Errorf("partition table: %w", err)
	}

	if table.DiskGUID != m.DiskGUID || table.DiskSize != m.DiskSize {
		return fmt.Errorf("disk %s of %d bytes; manifest: %s, %d",
			table.DiskGUID, table.DiskSize, m.DiskGUID, m.DiskSize)
	}

	if found := output.Partitions(table); !slices.Equal(m.Partitions, found) {
		return fmt.Errorf("partition table: %+v; manifest: %+v", found, m.Partitions)
	}

	return errors.Join(
		verifySlot(out, table, m, part),
		verifySignature(disk, table, m.Arch, signature),
		verifyUKI(out, table, m),
	)
}

// verifySlot hashes all of the root partition of slot A, and the separate file
// with the root file system.
func verifySlot(out outputs, t gpt.Table, m manifest.Manifest, part *meter.Part) error {
	disk := out[".raw"]
	hash, err := verity.ParseRootHash(m.RootHash)
	if err != nil {
		return fmt.Errorf("manifest: %w", err)
	}

	var root, tree *io.SectionReader
	for _, p := range t.Partitions {
		switch {
		case p.UUID == partitions.RootUUID(hash) &&
			p.Type == partitions.TypeUUID(partitions.Root, m.Arch):
			root = io.NewSectionReader(disk, p.Start, p.Size)
		case p.UUID == partitions.VerityUUID(hash) &&
			p.Type == partitions.TypeUUID(partitions.RootVerity, m.Arch):
			tree = io.NewSectionReader(disk, p.Start, p.Size)
		}
	}

	if root == nil || tree == nil {
		return fmt.Errorf("no root or no verity partition for %s with the UUID of the root hash",
			m.Arch)
	}

	if err := verity.Verify(part.ReaderAt(root), tree, hash); err != nil {
		return fmt.Errorf("slot A: %w", err)
	}
	if err := verity.Verify(part.ReaderAt(out[".root"]), out[".verity"], hash); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(out[".root"].Name()), err)
	}

	return nil
}

// verifyUKI checks that the ESP has the UKI, and that it is what the manifest
// says: version, kernel, command line.
func verifyUKI(out outputs, t gpt.Table, m manifest.Manifest) error {
	i := slices.IndexFunc(t.Partitions, func(p gpt.Partition) bool {
		return p.Type == partitions.TypeUUID(partitions.ESP, m.Arch)
	})
	if i < 0 {
		return errors.New("no ESP")
	}

	system, err := io.ReadAll(out[".efi"])
	if err != nil {
		return err
	}

	for _, path := range []string{m.UKI, loader.RecoveryUKI} {
		there, err := esp.Read(
			io.NewSectionReader(out[".raw"], t.Partitions[i].Start, t.Partitions[i].Size),
			t.SectorSize,
			path,
		)
		if err != nil || !bytes.Equal(there, system) {
			return errors.Join(err,
				fmt.Errorf("%s on the ESP differs from %s",
					path, filepath.Base(out[".efi"].Name())))
		}
	}

	sections, err := uki.Parse(bytes.NewReader(system))
	if err != nil {
		return fmt.Errorf("%s: %w", m.UKI, err)
	}

	return verifySections(sections, m)
}

func verifySections(sections uki.Sections, m manifest.Manifest) error {
	text := func(name string) string {
		have, _ := sections.Section(name)
		return strings.TrimRight(string(have), "\n\x00")
	}

	release, err := image.ParseRelease([]byte(text(".osrel")))
	if err != nil {
		return err
	}

	for _, claim := range []struct{ what, have, manifest string }{
		{"command line", text(".cmdline"), m.Cmdline},
		{"kernel", text(".uname"), m.Kernel},
		{"image", release.ImageID, m.ImageID},
		{"version", release.Version, m.Version},
	} {
		if claim.have != claim.manifest {
			return fmt.Errorf("%s: %s %q, manifest %q",
				m.UKI, claim.what, claim.have, claim.manifest)
		}
	}

	if !slices.Contains(strings.Fields(m.Cmdline), "roothash="+m.RootHash) {
		return fmt.Errorf("command line %q: not for root hash %s", m.Cmdline, m.RootHash)
	}

	if err := pcrsig.Check(sections); err != nil {
		return hint.With(fmt.Errorf("%s: %w", m.UKI, err),
			"sign the build again, with `loamctl sign --pcr-key`")
	}
	return nil
}
