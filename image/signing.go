package image

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/sign"
	"github.com/loam-os/loam/partitions/verity"
)

// Sign signs a build, in place of whoever has signed it before. The directory
// has the build as it was, or all of it signed. The root file system stays as
// it is.
func Sign(dir string, keys Keys) (manifest.Manifest, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return manifest.Manifest{}, err
	}

	unlock, err := lock(dir)
	if err != nil {
		return manifest.Manifest{}, err
	}
	defer unlock()

	if _, err := Verify(dir); err != nil {
		return manifest.Manifest{}, err
	}

	fresh := dir + ".new"
	defer os.RemoveAll(fresh)

	m, err := signInto(fresh, dir, keys)
	if err != nil {
		return m, err
	}

	return m, replace(fresh, dir)
}

// signing is a signed build under way.
type signing struct {
	from, to string // directories
	by       Keys
	manifest manifest.Manifest
	// rootHash is the content of verity-sig partitions.
	rootHash []byte
	// boot is the signature of the loader.
	boot []byte
	// packed is the SHA-256 of the packed disk image as it was, and as it is.
	packed [2]string
}

// signInto makes a signed build of another, in a directory that is not there.
func signInto(to, from string, by Keys) (manifest.Manifest, error) {
	text, err := os.ReadFile(filepath.Join(from, ManifestName))
	if err != nil {
		return manifest.Manifest{}, err
	}

	m, err := manifest.Decode(text)
	if err != nil {
		return m, err
	}

	for _, f := range m.Files {
		if f.Name != filepath.Base(f.Name) {
			return m, fmt.Errorf("%s: file %q: not of this directory", ManifestName, f.Name)
		}
	}

	if err := errors.Join(os.RemoveAll(to), os.Mkdir(to, 0o755)); err != nil {
		return m, err
	}

	s := &signing{
		from:     from,
		to:       to,
		by:       by,
		manifest: m,
	}
	if err := s.run(); err != nil {
		return m, err
	}
	if err := errors.Join(writeManifest(to, s.manifest), s.signSums()); err != nil {
		return m, err
	}

	return Verify(to)
}

// signSums signs the sums of the finished build.
func (s *signing) signSums() error {
	if s.by.Sums == nil {
		return nil
	}

	text, err := os.ReadFile(filepath.Join(s.to, SumsName))
	if err != nil {
		return err
	}

	signature, err := s.by.Sums.Sign(text)
	if err != nil {
		return fmt.Errorf("%s: %w", SumsName, err)
	}

	return os.WriteFile(filepath.Join(s.to, SumsSignature), signature, 0o644)
}

func (s *signing) run() error {
	if s.by.Programs.Certificate == nil {
		return s.linkAll()
	}

	hash, err := verity.ParseRootHash(s.manifest.RootHash)
	if err != nil {
		return err
	}

	s.rootHash, err = sign.RootHash(s.by.Programs, hash)
	if err != nil {
		return err
	}

	names := []string{}
	for _, f := range s.manifest.Files {
		if !strings.HasSuffix(f.Name, sigSuffix) {
			names = append(names, f.Name)
		}
	}

	// What others are made of goes first: UKIs have the signature of the
	// loader, which is on the disks, and some the digest of the packed one.
	for _, kind := range []func(name string) bool{isDisk, isPacked, isOther} {
		for _, name := range names {
			if !kind(name) {
				continue
			}
			if err := s.file(name); err != nil {
				return err
			}
		}
	}

	signature := s.base() + sigSuffix
	if err := os.WriteFile(filepath.Join(s.to, signature), s.rootHash, 0o644); err != nil {
		return err
	}

	if err := s.update(); err != nil {
		return err
	}

	s.manifest.Files, err = describe(s.to, append(names, signature))
	return err
}

// update makes the update bundle of the signed files, with the signature of the
// root hash.
func (s *signing) update() error {
	signature, err := verity.ParseSignature(s.rootHash)
	if err != nil {
		return err
	}

	m := s.manifest
	return WriteUpdate(s.to, s.base(), bundle.Sources{
		ImageID:   m.ImageID,
		Version:   m.Version,
		Arch:      m.Arch,
		Profile:   m.Profile,
		RootHash:  m.RootHash,
		Signature: &signature,
	})
}

// linkAll takes all files as they are.
func (s *signing) linkAll() error {
	for _, f := range s.manifest.Files {
		if err := os.Link(filepath.Join(s.from, f.Name), filepath.Join(s.to, f.Name)); err != nil {
			return err
		}
	}
	return nil
}

func isDisk(name string) bool {
	return strings.HasSuffix(name, ".raw") && !strings.HasSuffix(name, stickSuffix)
}
func isPacked(name string) bool {
	return strings.HasSuffix(name, ".raw.zst") && !strings.HasSuffix(name, stickSuffix+".zst")
}
func isOther(name string) bool { return !isDisk(name) && !isPacked(name) }

// pack packs the disk that was signed, and notes its digest, which PXE set and
// stick have.
func (s *signing) pack(name string) error {
	was, err := describeFile(s.from, name)
	if err != nil {
		return err
	}

	err = convert(filepath.Join(s.to, name), filepath.Join(s.to, s.base()+".raw"), writePacked)
	if err != nil {
		return err
	}

	now, err := describeFile(s.to, name)
	s.packed = [2]string{was.SHA256, now.SHA256}
	s.manifest.LiveCmdline = strings.Replace(s.manifest.LiveCmdline, was.SHA256, now.SHA256, 1)

	return err
}

// base is what the names of the outputs begin with.
func (s *signing) base() string {
	return strings.TrimSuffix(filepath.Base(s.manifest.UKI), ".efi")
}

// file makes one output.
func (s *signing) file(name string) error {
	from := filepath.Join(s.from, name)
	to := filepath.Join(s.to, name)
	switch {
	case isPacked(name):
		return s.pack(name)
	case strings.HasSuffix(name, ".qcow2"):
		return convert(to, filepath.Join(s.to, s.base()+".raw"), writeQcow2)
	case strings.HasSuffix(name, stickSuffix+".zst"):
		return convert(to, filepath.Join(s.to, s.base()+stickSuffix), writePackedFast)
	case strings.HasSuffix(name, stickSuffix):
		return s.stick(to, from)
	case isDisk(name):
		return s.disk(to, from)
	case strings.HasSuffix(name, packSuffix), strings.HasSuffix(name, indexSuffix):
		return nil // They are made last.
	case strings.HasSuffix(name, ".efi"):
		content, err := os.ReadFile(from)
		if err == nil {
			content, err = s.program(content)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		return os.WriteFile(to, content, 0o644)
	}

	return os.Link(from, to)
}

// program signs a program that firmware starts. A UKI gets the signature of the
// loader as well.
func (s *signing) program(image []byte) ([]byte, error) {
	image, err := authenticode.Strip(image)
	if err != nil {
		return nil, err
	}

	if _, err := uki.Parse(bytes.NewReader(image)); err == nil {
		// The digest on the command line is as long as the one before, so that
		// nothing moves.
		image = bytes.Replace(image, []byte("loam.disk=sha256:"+s.packed[0]),
			[]byte("loam.disk=sha256:"+s.packed[1]), 1)
		image, err = uki.Replace(image, uki.Section{Name: uki.LoaderSignature, Data: s.boot})
		if err != nil {
			return nil, err
		}
	}

	signature, err := authenticode.Sign(image, s.by.Programs)
	if err != nil {
		return nil, err
	}

	image, err = authenticode.Attach(image, signature)
	if err != nil {
		return nil, err
	}

	return image, s.by.check(image)
}
