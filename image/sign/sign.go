// Package sign makes a signed build from another build, whole or not at all.
// [Build] signs a build in its place; loamctl build with a key uses [Into] as
// its last step. The keys come from
// [github.com/loam-os/loam/image/sign/ownerkey].
//
// It signs each program on the ESPs of disks and each .efi
// (firmware/authenticode, by firmware/pkcs7), and the root hash for its
// verity-sig partition. The same signature is in the index of a bundle, so that
// an upgrade writes it, too, if it can. The root file system does not change:
// the signature of the boot loader in it is a section of the UKI, and the agent
// adds it when it renews the loader. Files made from a disk image are made
// again:
//
//	root hash --> verity-sig -----+
//	loader ----> signature --+    v
//	                         +--> disk --> packed disk --> its digest
//	UKI ---------------------+                                 |
//	     PXE set, installer, qcow2, update bundle, manifest <--+
//
// A signature has no time in it, and RSA by PKCS #1 v1.5 uses no random
// numbers, so signing again makes the same bytes. A build is not signed with
// enrollment keys beside it that would not start it, and signing without
// --enroll removes them. SHA256SUMS.gpg is written by image/openpgp.
//
// Keys for firmware (PK, KEK, db) are written as authenticated variables
// (firmware/efivar), byte for byte what efitools writes. On the ESP,
// systemd-boot enrolls them in firmware in setup mode.
package sign

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/image/sign/ownerkey"
	"github.com/loam-os/loam/image/update"
	"github.com/loam-os/loam/image/verify"
	"github.com/loam-os/loam/partitions/verity"
)

// Build signs the build in dir, and replaces the signatures that it has. The
// directory has either the old build, or all of it signed. The root file system
// does not change. Build calls doing with the name of each step.
func Build(dir string, keys Keys, doing func(what string)) (manifest.Manifest, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return manifest.Manifest{}, err
	}

	unlock, err := output.Lock(dir)
	if err != nil {
		return manifest.Manifest{}, err
	}
	defer unlock()

	doing("verify the build")
	if _, err := verify.Build(dir); err != nil {
		return manifest.Manifest{}, err
	}

	fresh := dir + ".new"
	defer os.RemoveAll(fresh)

	m, err := Into(fresh, dir, keys, doing)
	if err != nil {
		return m, err
	}

	return m, output.Replace(fresh, dir)
}

// signing is a signed build under way.
type signing struct {
	from, to string // directories
	by       Keys
	doing    func(what string)
	manifest manifest.Manifest
	// rootHash is the content of verity-sig partitions.
	rootHash []byte
	// boot is the signature of the loader.
	boot []byte
	// packed is the SHA-256 of the packed disk image, before and after signing.
	packed [2]string
}

// Into makes a signed build of the build from, in the directory to, which it
// makes. The caller puts it in its place. It calls doing with what it begins to
// do.
func Into(to, from string, by Keys, doing func(what string)) (manifest.Manifest, error) {
	m, _, err := output.ReadManifest(from)
	if err != nil {
		return m, err
	}

	for _, f := range m.Files {
		if f.Name != filepath.Base(f.Name) {
			return m, fmt.Errorf("%s: file %q: not of this directory", image.ManifestName, f.Name)
		}
	}

	if err := errors.Join(os.RemoveAll(to), os.Mkdir(to, 0o755)); err != nil {
		return m, err
	}

	s := &signing{
		from:     from,
		to:       to,
		by:       by,
		doing:    doing,
		manifest: m,
	}
	if err := s.run(); err != nil {
		return m, err
	}
	if err := errors.Join(output.WriteManifest(to, s.manifest), s.signSums()); err != nil {
		return m, err
	}

	doing("verify the signed build")
	return verify.Build(to)
}

// signSums signs the sums of the finished build.
func (s *signing) signSums() error {
	if s.by.Sums == nil {
		return nil
	}

	text, err := os.ReadFile(filepath.Join(s.to, image.SumsName))
	if err != nil {
		return err
	}

	s.doing("sign " + image.SumsName)
	signature, err := s.by.Sums.Sign(text)
	if err != nil {
		return fmt.Errorf("%s: %w", image.SumsName, err)
	}

	return os.WriteFile(filepath.Join(s.to, image.SumsSignature), signature, 0o644)
}

func (s *signing) run() error {
	if s.by.Programs.Certificate == nil {
		return s.linkAll()
	}

	hash, err := verity.ParseRootHash(s.manifest.RootHash)
	if err != nil {
		return err
	}

	s.doing("sign the root hash")
	s.rootHash, err = ownerkey.RootHash(s.by.Programs, hash)
	if err != nil {
		return err
	}

	names := []string{}
	for _, f := range s.manifest.Files {
		if !strings.HasSuffix(f.Name, image.SignatureSuffix) {
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

	signature := s.base() + image.SignatureSuffix
	if err := os.WriteFile(filepath.Join(s.to, signature), s.rootHash, 0o644); err != nil {
		return err
	}

	if err := s.update(); err != nil {
		return err
	}

	s.doing("sum up the files")
	s.manifest.Files, err = output.Describe(s.to, append(names, signature))
	return err
}

// update makes the update bundle of the signed files, with the signature of the
// root hash.
func (s *signing) update() error {
	signature, err := verity.ParseSignature(s.rootHash)
	if err != nil {
		return err
	}

	s.doing("make the update bundle")
	m := s.manifest
	return update.Write(s.to, s.base(), bundle.Sources{
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
	return strings.HasSuffix(name, ".raw") && !strings.HasSuffix(name, image.InstallerSuffix)
}
func isPacked(name string) bool {
	return strings.HasSuffix(name, ".raw.zst") &&
		!strings.HasSuffix(name, image.InstallerSuffix+".zst")
}
func isOther(name string) bool { return !isDisk(name) && !isPacked(name) }

// pack packs the disk that was signed, and records its digest, which the PXE
// set and the installer have.
func (s *signing) pack(name string) error {
	was, err := output.DescribeFile(s.from, name)
	if err != nil {
		return err
	}

	raw := filepath.Join(s.to, s.base()+".raw")
	err = output.Convert(filepath.Join(s.to, name), raw, output.Packed)
	if err != nil {
		return err
	}

	now, err := output.DescribeFile(s.to, name)
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
		s.doing("pack " + name)
		return s.pack(name)
	case strings.HasSuffix(name, ".qcow2"):
		s.doing("write " + name)
		return output.Convert(to, filepath.Join(s.to, s.base()+".raw"), output.Qcow2)
	case strings.HasSuffix(name, image.InstallerSuffix+".zst"):
		s.doing("pack " + name)
		raw := filepath.Join(s.to, s.base()+image.InstallerSuffix)
		return output.Convert(to, raw, output.PackedFast)
	case strings.HasSuffix(name, image.InstallerSuffix):
		s.doing("sign " + name)
		return s.installer(to, from)
	case isDisk(name):
		s.doing("sign " + name)
		return s.disk(to, from)
	case strings.HasSuffix(name, image.PackSuffix), strings.HasSuffix(name, image.IndexSuffix):
		return nil // They are made last.
	case strings.HasSuffix(name, ".efi"):
		s.doing("sign " + name)
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
func (s *signing) program(content []byte) ([]byte, error) {
	content, err := authenticode.Strip(content)
	if err != nil {
		return nil, err
	}

	if _, err := uki.Parse(bytes.NewReader(content)); err == nil {
		// The digest on the command line is as long as the one before, so that
		// nothing moves.
		content = bytes.Replace(content, []byte("loam.disk=sha256:"+s.packed[0]),
			[]byte("loam.disk=sha256:"+s.packed[1]), 1)
		content, err = uki.Replace(content, uki.Section{Name: uki.LoaderSignature, Data: s.boot})
		if err != nil {
			return nil, err
		}
	}

	signature, err := authenticode.Sign(content, s.by.Programs)
	if err != nil {
		return nil, err
	}

	content, err = authenticode.Attach(content, signature)
	if err != nil {
		return nil, err
	}

	return content, s.by.check(content)
}
