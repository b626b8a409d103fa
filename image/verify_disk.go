package image

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// verifyDisk checks what the manifest says about the disk image.
func verifyDisk(out outputs, m manifest.Manifest) error {
	disk := out[".raw"]
	table, err := gpt.Read(disk, m.DiskSize, m.SectorSize)
	if err != nil {
		return err
	}
	if !table.Source.Healthy() {
		return fmt.Errorf("partition table: primary %v, backup %v", table.Source.Primary, table.Source.Backup)
	}
	if table.DiskGUID != m.DiskGUID || table.DiskSize != m.DiskSize {
		return fmt.Errorf("disk %s of %d bytes; manifest: %s, %d", table.DiskGUID, table.DiskSize, m.DiskGUID, m.DiskSize)
	}
	if found := describePartitions(table); !slices.Equal(m.Partitions, found) {
		return fmt.Errorf("partition table: %+v; manifest: %+v", found, m.Partitions)
	}
	return errors.Join(verifySlot(out, table, m), verifySignature(disk, filepath.Dir(disk.Name()), table, m), verifyUKI(out, table, m))
}

// ReadSignature is the signature of the root hash of the build in dir, nil if it is not signed.
func ReadSignature(dir string, m manifest.Manifest) (*verity.Signature, error) {
	i := slices.IndexFunc(m.Files, func(f manifest.File) bool { return strings.HasSuffix(f.Name, sigSuffix) })
	if i < 0 {
		return nil, nil
	}
	content, err := os.ReadFile(filepath.Join(dir, m.Files[i].Name))
	if err != nil {
		return nil, err
	}
	s, err := verity.ParseSignature(content)
	if err == nil && s.RootHash != m.RootHash {
		err = fmt.Errorf("of root hash %s, manifest: %s", s.RootHash, m.RootHash)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Files[i].Name, err)
	}
	return &s, nil
}

// verifySignature checks that the disk has the signature of the root hash if, and only if, there is one.
func verifySignature(disk io.ReaderAt, dir string, t gpt.Table, m manifest.Manifest) error {
	s, err := ReadSignature(dir, m)
	if err != nil {
		return err
	}
	slots, err := partitions.Slots(t, m.Arch)
	if err != nil {
		return err
	}
	part := t.Partition(slots[0].Sig)
	if s == nil {
		if part.Label != partitions.EmptyLabel {
			return fmt.Errorf("partition %d: label %s, and the root hash is not signed", part.Index, part.Label)
		}
		return nil
	}
	want, err := s.Encode()
	if err != nil {
		return err
	}
	have := make([]byte, len(want))
	if _, err := disk.ReadAt(have, part.Start); err != nil || !bytes.Equal(have, want) {
		return errors.Join(err, fmt.Errorf("partition %d: not the signature of the root hash", part.Index))
	}
	return nil
}

func describePartitions(t gpt.Table) []manifest.Partition {
	var out []manifest.Partition
	for _, p := range t.Partitions {
		out = append(out, manifest.Partition{Index: p.Index, Label: p.Label, Type: p.Type, UUID: p.UUID, Start: p.Start, Size: p.Size})
	}
	return out
}

// verifySlot hashes the whole root partition of slot A, and the root file
// system that is a file of its own.
func verifySlot(out outputs, t gpt.Table, m manifest.Manifest) error {
	disk := out[".raw"]
	var hash [32]byte
	raw, err := hex.DecodeString(m.RootHash)
	if err != nil || len(raw) != len(hash) {
		return fmt.Errorf("manifest: root hash %q", m.RootHash)
	}
	copy(hash[:], raw)
	var root, tree *io.SectionReader
	for _, p := range t.Partitions {
		switch {
		case p.UUID == partitions.RootUUID(hash) && p.Type == partitions.TypeUUID(partitions.Root, m.Arch):
			root = io.NewSectionReader(disk, p.Start, p.Size)
		case p.UUID == partitions.VerityUUID(hash) && p.Type == partitions.TypeUUID(partitions.RootVerity, m.Arch):
			tree = io.NewSectionReader(disk, p.Start, p.Size)
		}
	}
	if root == nil || tree == nil {
		return fmt.Errorf("no root or no verity partition for %s with the UUID of the root hash", m.Arch)
	}
	if err := verity.Verify(root, tree, hash); err != nil {
		return fmt.Errorf("slot A: %w", err)
	}
	if err := verity.Verify(out[".root"], out[".verity"], hash); err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(out[".root"].Name()), err)
	}
	return nil
}

// verifyUKI checks that the ESP has the UKI, and that it is what the manifest
// says: version, kernel, command line.
func verifyUKI(out outputs, t gpt.Table, m manifest.Manifest) error {
	i := slices.IndexFunc(t.Partitions, func(p gpt.Partition) bool { return p.Type == partitions.TypeUUID(partitions.ESP, m.Arch) })
	if i < 0 {
		return errors.New("no ESP")
	}
	image, err := io.ReadAll(out[".efi"])
	if err != nil {
		return err
	}
	for _, path := range []string{m.UKI, loader.RecoveryUKI} {
		there, err := esp.Read(io.NewSectionReader(out[".raw"], t.Partitions[i].Start, t.Partitions[i].Size), t.SectorSize, path)
		if err != nil || !bytes.Equal(there, image) {
			return errors.Join(err, fmt.Errorf("%s on the ESP differs from %s", path, filepath.Base(out[".efi"].Name())))
		}
	}
	sections, err := uki.Parse(bytes.NewReader(image))
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
	release, err := ParseRelease([]byte(text(".osrel")))
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
			return fmt.Errorf("%s: %s %q, manifest %q", m.UKI, claim.what, claim.have, claim.manifest)
		}
	}
	if !slices.Contains(strings.Fields(m.Cmdline), "roothash="+m.RootHash) {
		return fmt.Errorf("command line %q: not for root hash %s", m.Cmdline, m.RootHash)
	}
	return nil
}
