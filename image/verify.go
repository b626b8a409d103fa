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

	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// Verify opens the build in dir and checks every claim of its manifest against
// the bytes. It returns all that does not hold.
func Verify(dir string) (manifest.Manifest, error) {
	text, err := os.ReadFile(filepath.Join(dir, ManifestName))
	if err != nil {
		return manifest.Manifest{}, err
	}
	m, err := manifest.Decode(text)
	if err != nil {
		return manifest.Manifest{}, err
	}
	raw, err := rawOf(m)
	if err != nil {
		return manifest.Manifest{}, err
	}
	disk, err := os.Open(filepath.Join(dir, raw))
	if err != nil {
		return manifest.Manifest{}, err
	}
	defer disk.Close()
	return m, errors.Join(verifyFiles(dir, m), verifyDisk(disk, m))
}

func rawOf(m manifest.Manifest) (string, error) {
	for _, f := range m.Files {
		if strings.HasSuffix(f.Name, ".raw") {
			return f.Name, nil
		}
	}
	return "", errors.New("manifest: no raw image among the files")
}

func verifyFiles(dir string, m manifest.Manifest) error {
	var names []string
	for _, f := range m.Files {
		names = append(names, f.Name)
	}
	have, err := describe(dir, names)
	if err != nil {
		return err
	}
	for i, f := range have {
		if f != m.Files[i] {
			return fmt.Errorf("%s: %d bytes, SHA-256 %s; manifest: %d bytes, %s", f.Name, f.Size, f.SHA256, m.Files[i].Size, m.Files[i].SHA256)
		}
	}
	listed, err := os.ReadFile(filepath.Join(dir, SumsName))
	if err != nil {
		return err
	}
	for _, f := range have {
		if !strings.Contains(string(listed), f.SHA256+"  "+f.Name+"\n") {
			return fmt.Errorf("%s: no line for %s", SumsName, f.Name)
		}
	}
	return nil
}

func verifyDisk(disk io.ReaderAt, m manifest.Manifest) error {
	table, err := gpt.Read(disk, m.DiskSize, m.SectorSize)
	if err != nil {
		return err
	}
	if !table.Source.Healthy() {
		return fmt.Errorf("partition table: primary %v, backup %v", table.Source.Primary, table.Source.Backup)
	}
	if table.DiskGUID != m.DiskGUID {
		return fmt.Errorf("disk GUID %s, manifest %s", table.DiskGUID, m.DiskGUID)
	}
	if found := describePartitions(table); !slices.Equal(m.Partitions, found) {
		return fmt.Errorf("partition table: %+v; manifest: %+v", found, m.Partitions)
	}
	return errors.Join(verifySlot(disk, table, m), verifyUKI(disk, table, m))
}

func describePartitions(t gpt.Table) []manifest.Partition {
	var out []manifest.Partition
	for _, p := range t.Partitions {
		out = append(out, manifest.Partition{Index: p.Index, Label: p.Label, Type: p.Type, UUID: p.UUID, Start: p.Start, Size: p.Size})
	}
	return out
}

// verifySlot hashes the whole root partition of slot A.
func verifySlot(disk io.ReaderAt, t gpt.Table, m manifest.Manifest) error {
	var hash [32]byte
	raw, err := hex.DecodeString(m.RootHash)
	if err != nil || len(raw) != len(hash) {
		return fmt.Errorf("manifest: root hash %q", m.RootHash)
	}
	copy(hash[:], raw)
	var root, tree *io.SectionReader
	for _, p := range t.Partitions {
		switch p.UUID {
		case partitions.RootUUID(hash):
			root = io.NewSectionReader(disk, p.Start, p.Size)
		case partitions.VerityUUID(hash):
			tree = io.NewSectionReader(disk, p.Start, p.Size)
		}
	}
	if root == nil || tree == nil {
		return errors.New("no root or no verity partition with the UUID of the root hash")
	}
	return verity.Verify(root, tree, hash)
}

func verifyUKI(disk io.ReaderAt, t gpt.Table, m manifest.Manifest) error {
	for _, p := range t.Partitions {
		if p.Type != partitions.TypeUUID(partitions.ESP, m.Arch) {
			continue
		}
		image, err := esp.Read(io.NewSectionReader(disk, p.Start, p.Size), m.UKI)
		if err != nil {
			return err
		}
		sections, err := uki.Parse(bytes.NewReader(image))
		if err != nil {
			return fmt.Errorf("%s: %w", m.UKI, err)
		}
		have, _ := sections.Section(".cmdline")
		if got := strings.TrimRight(string(have), "\n\x00"); got != m.Cmdline {
			return fmt.Errorf("%s: command line %q, manifest %q", m.UKI, got, m.Cmdline)
		}
		if !strings.Contains(m.Cmdline, "roothash="+m.RootHash) {
			return fmt.Errorf("command line %q: not for root hash %s", m.Cmdline, m.RootHash)
		}
		return nil
	}
	return errors.New("no ESP")
}
