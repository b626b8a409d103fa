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
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/pcrsig"
	"github.com/loam-os/loam/firmware/uki"
	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/output"
	"github.com/loam-os/loam/image/sign/ownerkey"
	"github.com/loam-os/loam/image/update"
	"github.com/loam-os/loam/image/verify"
	"github.com/loam-os/loam/partitions/verity"
)

// Build signs the build in dir, and replaces the signatures that it has. The
// directory has either the old build, or all of it signed. The root file system
// does not change. to is told what it does.
func Build(
	ctx context.Context, dir string, keys Keys, to Listener,
) (manifest.Manifest, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return manifest.Manifest{}, err
	}

	unlock, err := output.Lock(dir)
	if err != nil {
		return manifest.Manifest{}, err
	}
	defer unlock()

	to.Doing("verify the build")
	if _, err := verify.Build(ctx, dir, to.Progress); err != nil {
		return manifest.Manifest{}, err
	}

	fresh := dir + ".new"
	defer os.RemoveAll(fresh)

	m, err := Into(ctx, fresh, dir, keys, to)
	if err != nil {
		return m, err
	}

	return m, output.Replace(fresh, dir)
}

// Listener is told what [Build] does.
type Listener interface {
	// Doing is called with the name of each step, before it.
	Doing(what string)
	// Progress is called while a step reads much, as [meter.Report] says.
	Progress(part string, done, all int64)
}

// Silent implements [Listener], and tells nothing.
type Silent struct{}

// Doing implements [Listener].
func (Silent) Doing(string) {}

// Progress implements [Listener].
func (Silent) Progress(string, int64, int64) {}

// signing is a signed build under way.
type signing struct {
	from, to string // directories
	by       Keys
	ctx      context.Context
	listener Listener
	manifest manifest.Manifest
	// rootHash is the content of verity-sig partitions.
	rootHash []byte
	// boot is the signature of the loader.
	boot []byte
	// packed is the SHA-256 of the packed disk image, before and after signing.
	packed [2]string
}

// Into makes a signed build of the build from, in the directory to, which it
// makes. The caller puts it in its place. listener is told what it does.
func Into(
	ctx context.Context, to, from string, by Keys, listener Listener,
) (manifest.Manifest, error) {
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
		ctx:      ctx,
		listener: listener,
		manifest: m,
	}
	if err := s.run(); err != nil {
		return m, err
	}
	if err := errors.Join(output.WriteManifest(to, s.manifest), s.signSums()); err != nil {
		return m, err
	}

	listener.Doing("verify the signed build")
	return verify.Build(ctx, to, listener.Progress)
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

	s.listener.Doing("sign " + image.SumsName)
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

	s.listener.Doing("sign the root hash")
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

	// Files that others are made of go first: UKIs have the signature of the
	// loader, which is on the disks, and some have the digest of the packed
	// disk.
	for _, kind := range []func(name string) bool{isDisk, isPacked, isOther} {
		for _, name := range names {
			if !kind(name) {
				continue
			}
			if err := errors.Join(s.ctx.Err(), s.file(name)); err != nil {
				return err
			}
		}
	}

	s.manifest.Cmdline = s.cmdline(s.manifest.Cmdline)
	s.manifest.LiveCmdline = s.cmdline(s.manifest.LiveCmdline)
	signature := s.base() + image.SignatureSuffix
	if err := os.WriteFile(filepath.Join(s.to, signature), s.rootHash, 0o644); err != nil {
		return err
	}

	if err := s.update(); err != nil {
		return err
	}

	s.listener.Doing("sum up the files")
	s.manifest.Files, err = s.describe(append(names, signature))
	return err
}

// update makes the update bundle of the signed files, with the signature of the
// root hash.
func (s *signing) update() error {
	signature, err := verity.ParseSignature(s.rootHash)
	if err != nil {
		return err
	}

	s.listener.Doing("make the update bundle")
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
	was, err := output.DescribeFile(s.from, name, io.Discard)
	if err != nil {
		return err
	}

	raw := filepath.Join(s.to, s.base()+".raw")
	err = s.convert(filepath.Join(s.to, name), raw, output.Packed)
	if err != nil {
		return err
	}

	now, err := output.DescribeFile(s.to, name, io.Discard)
	s.packed = [2]string{was.SHA256, now.SHA256}
	return err
}

// convert writes a disk image in another format.
func (s *signing) convert(file, raw string, format output.Format) error {
	info, err := os.Stat(raw)
	if err != nil {
		return err
	}
	part := meter.Begin(s.ctx, "pack", info.Size(), s.listener.Progress)
	return output.Convert(file, raw, format, part)
}

// describe sums up the files of the signed build.
func (s *signing) describe(names []string) ([]manifest.File, error) {
	all := int64(0)
	for _, name := range names {
		info, err := os.Stat(filepath.Join(s.to, name))
		if err != nil {
			return nil, err
		}
		all += info.Size()
	}
	part := meter.Begin(s.ctx, "sum up", all, s.listener.Progress)
	return output.Describe(s.to, names, part)
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
		s.listener.Doing("pack " + name)
		return s.pack(name)
	case strings.HasSuffix(name, ".qcow2"):
		s.listener.Doing("write " + name)
		return s.convert(to, filepath.Join(s.to, s.base()+".raw"), output.Qcow2)
	case strings.HasSuffix(name, image.InstallerSuffix+".zst"):
		s.listener.Doing("pack " + name)
		raw := filepath.Join(s.to, s.base()+image.InstallerSuffix)
		return s.convert(to, raw, output.PackedFast)
	case strings.HasSuffix(name, image.InstallerSuffix):
		s.listener.Doing("sign " + name)
		return s.installer(to, from)
	case isDisk(name):
		s.listener.Doing("sign " + name)
		return s.disk(to, from)
	case strings.HasSuffix(name, image.PackSuffix), strings.HasSuffix(name, image.IndexSuffix):
		return nil // They are made last.
	case strings.HasSuffix(name, ".efi"):
		s.listener.Doing("sign " + name)
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

// cmdline returns the command line of the signed system: with the digest of the
// packed disk that was signed, and the keys for machine.yaml that it is to have.
func (s *signing) cmdline(text string) string {
	text = strings.Replace(text, s.packed[0], s.packed[1], 1)
	if s.by.MachineTrust == "" {
		return text
	}
	return image.SetTrust(text, s.by.MachineTrust)
}

// program signs a program that firmware starts.
func (s *signing) program(content []byte) ([]byte, error) {
	content, err := authenticode.Strip(content)
	if err != nil {
		return nil, err
	}

	if sections, err := uki.Parse(bytes.NewReader(content)); err == nil {
		content, err = s.sections(content, sections)
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

// sections gives a UKI the signature of the loader, the keys for machine.yaml,
// and the signed policy of what systemd-stub measures.
func (s *signing) sections(content []byte, before uki.Sections) ([]byte, error) {
	text, _ := before.Section(".cmdline")
	content, err := uki.Replace(content, uki.Section{
		Name: ".cmdline",
		Data: []byte(s.cmdline(string(text))),
	})
	if err != nil {
		return nil, err
	}

	content, err = uki.Replace(content, uki.Section{Name: uki.LoaderSignature, Data: s.boot})
	if err != nil {
		return nil, err
	}
	return pcrsig.Sign(content, s.by.PCR)
}
