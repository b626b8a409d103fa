package disk

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/loam-os/loam/agent/cmdline"
	"github.com/loam-os/loam/agent/upgrade/fill"
	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/bootdir"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/osrelease"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/fat"
	"github.com/loam-os/loam/partitions/gpt"
)

// ESP is the open EFI system partition.
type ESP struct {
	*fat.FS
	dev Closer
	// staged is a UKI on it that has no entry yet; nil if none.
	staged *staged
}

type staged struct {
	chain fat.Chain
	size  int64
}

// OpenESP opens the ESP. What is staged there is lost when it is closed,
// because it has no name until it is linked.
func (d Disk) OpenESP() (*ESP, error) {
	table, err := d.table()
	if err != nil {
		return nil, err
	}

	kind := partitions.TypeUUID(partitions.ESP, d.Arch)
	at := slices.IndexFunc(table.Partitions, func(p gpt.Partition) bool { return p.Type == kind })
	if at < 0 {
		return nil, errors.New("the disk has no ESP")
	}

	dev, err := d.Open(table.Partitions[at])
	if err != nil {
		return nil, fmt.Errorf("open the ESP: %w", err)
	}

	files, err := bootdir.Open(dev, table.Partitions[at].Size, d.SectorSize)
	if err != nil {
		return nil, errors.Join(err, dev.Close())
	}

	return &ESP{FS: files, dev: dev}, nil
}

// Close closes the partition. What is staged is lost.
func (e *ESP) Close() error { return e.dev.Close() }

// Staged reports whether a UKI is on the ESP that has no entry yet.
func (e *ESP) Staged() bool { return e.staged != nil }

// Entries returns the UKIs in the directory of boot entries. Other files, such
// as fillers, are left out. A UKI with another name, or one that cannot be
// read, is an entry all the same, because the loader shows it.
func (e *ESP) Entries() ([]Entry, error) { return entries(e.FS) }

// stage writes a UKI where no entry names it yet.
func (e *ESP) stage(r io.Reader, size int64) error {
	chain, err := e.Stage(r, size)
	if err != nil {
		return err
	}
	e.staged = &staged{chain, size}
	return nil
}

// LinkStaged makes an entry of the UKI that is staged. It must not be called if
// none is: see [ESP.Staged].
func (e *ESP) LinkStaged(name string) error {
	s := *e.staged
	e.staged = nil
	return bootdir.Link(e.FS, name, s.chain, s.size)
}

// StageCopy stages the UKI of an entry once more.
func (e *ESP) StageCopy(from *Entry) error {
	if err := e.Reclaim(); err != nil {
		return err
	}
	r, err := e.Open(from.Path())
	if err != nil {
		return err
	}
	return e.stage(io.NewSectionReader(r, 0, from.Size), from.Size)
}

// Image reads the part of an entry's UKI that the firmware judges.
func (e *ESP) Image(of *Entry) (*authenticode.Image, error) {
	r, err := e.Open(of.Path())
	if err != nil {
		return nil, err
	}
	im, err := authenticode.Read(r, of.Size)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", of.File, err)
	}
	return &im, nil
}

// locals returns the chunks of the UKIs of entries. A UKI that cannot be read
// is left out.
func (e *ESP) locals(all []Entry) []fill.Local {
	var locals []fill.Local
	for _, entry := range all {
		r, err := e.Open(entry.Path())
		if err != nil {
			continue
		}
		if l, err := fill.Locate(r, entry.Size, bundle.ChunkSize); err == nil {
			locals = append(locals, l)
		}
	}
	return locals
}

// Entry is a boot entry: a UKI in \EFI\Linux.
type Entry struct {
	bootentry.Name

	// File is the name in the directory.
	File string
	// Size is the size of the UKI, in bytes.
	Size int64
	// RootHash is what the UKI boots, "" if that cannot be read.
	RootHash string

	// Orphan says that the long name of the entry is corrupt: the loader sees a
	// short name, without tries.
	Orphan bool
}

// Path returns the path of the entry's UKI on the ESP.
func (e Entry) Path() string { return bootentry.Dir + "/" + e.File }

// Find returns the entry that boots the system of a root hash, nil if there is
// no such entry. An entry whose long name is corrupt does not count.
func Find(all []Entry, rootHash string) *Entry {
	for i, e := range all {
		if e.RootHash == rootHash && !e.Orphan {
			return &all[i]
		}
	}
	return nil
}

// entries is [ESP.Entries] of a file system.
func entries(fs *fat.FS) ([]Entry, error) {
	files, err := fs.ReadDir(bootentry.Dir)
	if err != nil {
		return nil, err
	}

	var all []Entry
	for _, f := range files {
		if f.Dir || f.Size == 0 {
			continue
		}

		e := Entry{File: f.Name, Size: f.Size, Orphan: f.Orphan}
		if n, err := bootentry.Parse(f.Name); err == nil {
			e.Name = n
		}
		if r, err := fs.Open(bootentry.Dir + "/" + f.Name); err == nil {
			e.RootHash = hashOf(r)
		}

		all = append(all, e)
	}

	return all, nil
}

// hashOf returns the root hash that a UKI boots, "" if it has none.
func hashOf(r io.ReaderAt) string {
	text, err := uki.ReadSection(r, ".cmdline")
	if err != nil {
		return ""
	}
	hash, _ := cmdline.Parse(string(text)).Get("roothash")
	return hash
}

// checkUKI checks that a UKI boots the system that the index describes: a UKI
// without a root hash boots whatever is newest.
func checkUKI(r io.ReaderAt, idx bundle.Index) error {
	if hash := hashOf(r); hash != idx.RootHash {
		return fmt.Errorf("the UKI boots root hash %.12q, the index is about %.12s",
			hash, idx.RootHash)
	}

	release, err := uki.ReadSection(r, ".osrel")
	if err != nil {
		return err
	}

	version := osrelease.Parse(release)[osrelease.ImageVersion]
	if version != idx.Version { // The loader sorts by it.
		return fmt.Errorf("the UKI has version %q, the index %s", version, idx.Version)
	}

	return nil
}
