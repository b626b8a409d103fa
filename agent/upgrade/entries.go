package upgrade

import (
	"fmt"
	"io"

	"github.com/loam-os/loam/agent/cmdline"
	"github.com/loam-os/loam/firmware/bootentry"
	"github.com/loam-os/loam/firmware/osrelease"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/partitions/fat"
)

// entries are the UKIs in the directory of boot entries. Files that are none, such
// as its fillers, are left out; a UKI of another name, or that cannot be read, is
// an entry all the same, as the loader shows it.
func entries(fs *fat.FS) ([]Entry, error) {
	files, err := fs.ReadDir(fat.BootDir)
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, f := range files {
		if f.Dir || f.Size == 0 {
			continue
		}
		e := Entry{File: f.Name, Orphan: f.Orphan, size: f.Size}
		if n, err := bootentry.Parse(f.Name); err == nil {
			e.Name = n
		}
		if r, err := fs.Open(fat.BootDir + "/" + f.Name); err == nil {
			e.RootHash = hashOf(r)
		}
		all = append(all, e)
	}
	return all, nil
}

// hashOf is the root hash that a UKI boots, "" if it does not say.
func hashOf(r io.ReaderAt) string {
	text, err := uki.ReadSection(r, ".cmdline")
	if err != nil {
		return ""
	}
	hash, _ := cmdline.Parse(string(text)).Get("roothash")
	return hash
}

// checkUKI makes sure that a UKI boots the system that the index describes: one
// without a root hash boots whatever is newest.
func checkUKI(r io.ReaderAt, idx bundle.Index) error {
	if hash := hashOf(r); hash != idx.RootHash {
		return fmt.Errorf("the UKI boots root hash %.12q, the index is about %.12s", hash, idx.RootHash)
	}
	release, err := uki.ReadSection(r, ".osrel")
	if err != nil {
		return err
	}
	if version := osrelease.Parse(release)[osrelease.ImageVersion]; version != idx.Version { // The loader orders by it.
		return fmt.Errorf("the UKI is of version %q, the index about %s", version, idx.Version)
	}
	return nil
}

// ukiLocals are the UKIs on the ESP; one that cannot be read gives nothing.
func ukiLocals(fs *fat.FS, v View) (all []Local) {
	for _, e := range v.Entries {
		if r, err := fs.Open(fat.BootDir + "/" + e.File); err == nil {
			if l, err := Locate(r, e.size); err == nil {
				all = append(all, l)
			}
		}
	}
	return all
}
