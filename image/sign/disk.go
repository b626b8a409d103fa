package sign

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/loader"
	"github.com/loam-os/loam/image/esp"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/sparse"
	"github.com/loam-os/loam/partitions/verity"
)

// disk makes a signed disk image from an unsigned one: it copies everything
// except the ESP, which it makes again, and adds the signature of the root
// hash.
func (s *signing) disk(to, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()

	info, err := src.Stat()
	if err != nil {
		return err
	}

	table, err := gpt.Find(src, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", from, err)
	}

	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	defer dst.Close()

	for _, p := range table.Partitions {
		if err == nil && p.Type == partitions.TypeUUID(partitions.ESP, s.manifest.Arch) {
			err = errors.Join(copyAround(dst, src, p, info.Size()),
				s.esp(dst, src, table.SectorSize, p))
		}
	}

	if err == nil {
		err = s.seal(dst, table)
	}

	if err := errors.Join(err, dst.Close()); err != nil {
		return fmt.Errorf("sign %s: %w", from, err)
	}

	return nil
}

// copyAround copies the parts outside of partitions, without the holes.
func copyAround(dst, src *os.File, p gpt.Partition, size int64) error {
	if err := dst.Truncate(size); err != nil {
		return err
	}

	data, err := sparse.Data(src, size)
	if err != nil {
		return err
	}

	for _, e := range data {
		for _, part := range []sparse.Extent{
			{Start: e.Start, End: min(e.End, p.Start)},
			{Start: max(e.Start, p.End()), End: e.End},
		} {
			if part.Start >= part.End {
				continue
			}
			_, err := io.Copy(io.NewOffsetWriter(dst, part.Start),
				io.NewSectionReader(src, part.Start, part.End-part.Start))
			if err != nil {
				return err
			}
		}
	}

	return nil
}

// esp makes the ESP again, with all its programs signed.
func (s *signing) esp(dst, src *os.File, sectorSize int, p gpt.Partition) error {
	part := io.NewSectionReader(src, p.Start, p.Size)
	fs, err := fat.Open(fat.ReadOnly(part), p.Size, sectorSize)
	if err != nil {
		return err
	}

	files, err := readFiles(fs, "")
	if err != nil {
		return err
	}

	files, err = s.files(files)
	if err != nil {
		return err
	}

	var id [4]byte // of the volume; at byte 67 of its boot sector
	if _, err := part.ReadAt(id[:], 67); err != nil {
		return err
	}

	return esp.Write(io.NewOffsetWriter(dst, p.Start), p.Size, sectorSize,
		binary.LittleEndian.Uint32(id[:]), files)
}

// files are the files of an ESP, or of a USB installer, with all programs
// signed and the keys for firmware.
func (s *signing) files(files []esp.File) (_ []esp.File, err error) {
	if err := s.signLoader(files); err != nil {
		return nil, err
	}

	files = slices.DeleteFunc(files, func(f esp.File) bool {
		return strings.HasPrefix(f.Path, keysDir+"/")
	})

	for i, f := range files {
		switch {
		case strings.EqualFold(path.Ext(f.Path), ".efi"):
			files[i].Data, err = s.program(f.Data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Path, err)
			}
		case f.Path == loader.Conf:
			files[i].Data = enrollWhen(f.Data, s.by.When)
		}
	}

	return append(files, s.by.files()...), nil
}

// installer makes a signed USB installer from an unsigned one. It has the disk
// image that was signed before.
func (s *signing) installer(to, from string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()

	table, err := output.InstallerTable(s.packed[1])
	if err != nil {
		return err
	}

	p := table.Partitions[0]
	fs, err := fat.Open(fat.ReadOnly(io.NewSectionReader(src, p.Start, p.Size)), p.Size,
		table.SectorSize)
	if err != nil {
		return err
	}

	files, err := readFiles(fs, "")
	if err != nil {
		return err
	}

	packed, err := os.Open(filepath.Join(s.to, s.base()+".raw.zst"))
	if err != nil {
		return err
	}
	defer packed.Close()

	info, err := packed.Stat()
	if err != nil {
		return err
	}

	for i, f := range files {
		if f.Path == partitions.InstallerFile {
			files[i].Content = io.NewSectionReader(packed, 0, info.Size())
		}
	}

	files, err = s.files(files)
	if err != nil {
		return err
	}

	return output.WriteInstaller(to, s.packed[1], files)
}

// signLoader signs the loader, if it is among the files, for UKIs to have the
// signature.
func (s *signing) signLoader(files []esp.File) (err error) {
	for _, f := range files {
		if err == nil && strings.EqualFold(f.Path, loader.Path(s.manifest.Arch)) {
			s.boot, err = authenticode.Sign(f.Data, s.by.Programs)
		}
	}
	return err
}

// readFiles reads all files of a directory, and of those in it, but for the
// fillers that esp.Write makes. It only opens the packed disk of an installer.
func readFiles(fs *fat.FS, dir string) (all []esp.File, err error) {
	entries, err := fs.ReadDir(dir)
	if err != nil {
		return nil, err
	}

	fillers := bootentry.Fillers()
	for _, e := range entries {
		f := esp.File{Path: path.Join(dir, e.Name)}
		switch {
		case e.Dir:
			below, err := readFiles(fs, f.Path)
			if err != nil {
				return nil, err
			}
			all = append(all, below...)
			continue
		case dir == bootentry.Dir && slices.Contains(fillers, e.Name):
			continue
		case e.Size > 0:
			r, err := fs.Open(f.Path)
			if err != nil {
				return nil, err
			}
			if f.Path == partitions.InstallerFile {
				f.Content = r
				break
			}

			f.Data, err = io.ReadAll(r)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", f.Path, err)
			}
		}

		f.ReadOnly = f.Path == loader.RecoveryEntry
		all = append(all, f)
	}

	return all, nil
}

// seal writes the signature of the root hash into the slot that has the system,
// if it is a disk with slots.
func (s *signing) seal(dst *os.File, table gpt.Table) error {
	hash, err := verity.ParseRootHash(s.manifest.RootHash)
	if err != nil {
		return err
	}

	slots, err := partitions.Slots(table, s.manifest.Arch)
	if err != nil || slots[0].Sig == 0 {
		return nil
	}
	if have, _ := slots[0].Holds(table, s.manifest.Arch); have != hash {
		return fmt.Errorf("slot A holds %x, the manifest is about %s", have, s.manifest.RootHash)
	}

	// A longer one may have been there.
	content := append(slices.Clone(s.rootHash),
		make([]byte, verity.MaxSignature-len(s.rootHash))...)
	if _, err := dst.WriteAt(content, table.Partition(slots[0].Sig).Start); err != nil {
		return fmt.Errorf("write the signature of the root hash: %w", err)
	}

	table = slots[0].Seal(table, s.manifest.Arch, hash, table.Partition(slots[0].Root).Label, true)
	if table.DiskGUID == s.manifest.DiskGUID {
		s.manifest.Partitions = output.Partitions(table)
	}

	return table.Write(dst)
}
