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
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/sign"
	"github.com/loam-os/loam/partitions/verity"
)

// Sign signs a build, in place of whoever has signed it before. The directory has the build as it was, or all of it signed. The root file system
// stays as it is.
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
	s := &signing{from: from, to: to, by: by, manifest: m}
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
	if s.rootHash, err = sign.RootHash(s.by.Programs, hash); err != nil {
		return err
	}
	names := []string{}
	for _, f := range s.manifest.Files {
		if !strings.HasSuffix(f.Name, sigSuffix) {
			names = append(names, f.Name)
		}
	}
	// What others are made of goes first: UKIs have the signature of the loader, which is on the disks.
	for _, kind := range []func(name string) bool{isDisk, isOther} {
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
	s.manifest.Files, err = describe(s.to, append(names, signature))
	return err
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

func isDisk(name string) bool  { return filepath.Ext(name) == ".raw" }
func isOther(name string) bool { return !isDisk(name) }

// base is what the names of the outputs begin with.
func (s *signing) base() string {
	return strings.TrimSuffix(filepath.Base(s.manifest.UKI), ".efi")
}

// file makes one output.
func (s *signing) file(name string) error {
	from, to := filepath.Join(s.from, name), filepath.Join(s.to, name)
	for suffix, write := range map[string]func(dst, src *os.File, size int64) error{".qcow2": writeQcow2, ".raw.zst": writePacked} {
		if base, ok := strings.CutSuffix(name, suffix); ok {
			return convert(to, filepath.Join(s.to, base+".raw"), write)
		}
	}
	switch filepath.Ext(name) {
	case ".raw":
		return s.disk(to, from)
	case ".efi":
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

// program signs one that firmware starts. A UKI gets the signature of the loader as well.
func (s *signing) program(image []byte) ([]byte, error) {
	image, err := authenticode.Strip(image)
	if err != nil {
		return nil, err
	}
	if _, err := uki.Parse(bytes.NewReader(image)); err == nil {
		if image, err = uki.Replace(image, uki.Section{Name: uki.LoaderSignature, Data: s.boot}); err != nil {
			return nil, err
		}
	}
	signature, err := authenticode.Sign(image, s.by.Programs)
	if err != nil {
		return nil, err
	}
	if image, err = authenticode.Attach(image, signature); err != nil {
		return nil, err
	}
	return image, s.by.check(image)
}
