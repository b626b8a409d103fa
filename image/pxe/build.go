package pxe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/manifest"
)

// Names of a build's files on this server, under its Path.
const (
	UKI    = "pxe.efi"
	kernel = "vmlinuz"
	initrd = "initrd"
)

// served are all files of a build that machines can have, with the end of the
// name that each has in the build.
var served = map[string]string{
	UKI: ".pxe.efi", kernel: ".vmlinuz", initrd: ".initrd",
	"root": ".root", "verity": ".verity", "disk.raw.zst": ".raw.zst",
}

// Build is a build that is served. Its files stay as they were when it was
// opened, whatever is built in its directory afterwards.
type Build struct {
	manifest manifest.Manifest
	files    map[string]File
}

// File is a file of a build.
type File struct {
	io.ReaderAt
	Size  int64
	close func() error
}

// Open opens the build in dir and checks all that is served of it.
func Open(dir string) (*Build, error) {
	const makes = "loamctl build --out %s makes one"
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return nil, hint.With(fault.With(fmt.Errorf("%s is no build: %w", dir, err),
			fault.NotABuild), makes, dir)
	}

	m, err := manifest.Decode(text)
	if err != nil {
		return nil, hint.With(fault.With(fmt.Errorf("%s: %w", dir, err),
			fault.NotABuild), makes, dir)
	}

	b := &Build{manifest: m, files: map[string]File{}}
	for name, end := range served {
		f, err := open(dir, m, end)
		if err != nil {
			return nil, errors.Join(
				hint.With(fmt.Errorf("%s: %w", dir, err), makes, dir), b.Close())
		}
		b.files[name] = f
	}

	return b, nil
}

// open opens the file of a build whose name ends so, if it is as the manifest
// says.
func open(dir string, m manifest.Manifest, end string) (File, error) {
	want, ok := m.Output(end)
	if !ok || !filepath.IsLocal(want.Name) {
		return File{}, fault.With(
			fmt.Errorf("has no file *%s, which machines boot from the network by", end),
			fault.NotABuild)
	}

	f, err := os.Open(filepath.Join(dir, want.Name))
	if err != nil {
		return File{}, err
	}
	if err := check(f, want); err != nil {
		return File{}, errors.Join(err, f.Close())
	}

	return File{f, want.Size, f.Close}, nil
}

func check(f *os.File, want manifest.File) error {
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return fmt.Errorf("read %s: %w", want.Name, err)
	}
	if n != want.Size || hex.EncodeToString(h.Sum(nil)) != want.SHA256 {
		return fault.With(fmt.Errorf("%s is not the file that manifest.json is of", want.Name),
			fault.BuildDamaged)
	}

	return nil
}

// Close closes all files.
func (b *Build) Close() error {
	var err error
	for _, f := range b.files {
		err = errors.Join(err, f.close())
	}
	return err
}

// Arch is as Go names it.
func (b *Build) Arch() string { return b.manifest.Arch }

// String is the name of the build in messages.
func (b *Build) String() string {
	return fmt.Sprintf("%s %s %s", b.manifest.ImageID, b.manifest.Version, b.manifest.Profile)
}

// RootHash is the root hash of the system.
func (b *Build) RootHash() string { return b.manifest.RootHash }

// Path is where a file of the build is on this server, without a slash at the
// start: the same for TFTP and for HTTP.
func (b *Build) Path(name string) string { return FilesPath[1:] + b.manifest.RootHash + "/" + name }

// Files are all files of the builds, by Path.
func (o Offers) Files() map[string]File {
	files := map[string]File{}
	for _, b := range o.Builds {
		for name, f := range b.files {
			files[b.Path(name)] = f
		}
	}
	return files
}
