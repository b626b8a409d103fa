// Package bundle keeps Kubernetes bundles on a node: the programs and images of
// one version of Kubernetes. [Open] is the function to use first, and
// [Store.Fetch] gets a bundle from the repository of the system's releases.
//
//	Source: mirrors, repository --Fetch--> .1.37.2/   verified chunk by chunk
//	                                          |
//	                                          v       one rename
//	                            Open <---- 1.37.2/
//
// The directory of a bundle in /var/lib/loam/kubernetes has these files:
//
//	bundle.json   version, architecture, each file with size and digest
//	bin/          etcd, etcdutl, kube-apiserver, ..., kubelet
//	images/       an OCI layout with pause and CoreDNS
//
// A directory with the name of a version is complete: it gets this name by one
// rename, after all of its files were verified and are durable. Until then it has
// a dot before its name.
package bundle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	index "github.com/loam-os/loam/image/bundle"
)

// Directory is where a node has its bundles, each in a directory of its version.
const Directory = "/var/lib/loam/kubernetes"

// descriptionFile describes the other files of a bundle.
const descriptionFile = "bundle.json"

// Format is the version of the shape of bundle.json.
const Format = 1

// Programs are the programs of a bundle.
var Programs = index.KubernetesPrograms()

// Bundle is a bundle on this node.
type Bundle struct {
	Dir string
	Description
	// Images are the images by their names, sorted.
	Images []Image
}

// Description is the content of bundle.json.
type Description struct {
	Format int `json:"format"`

	// Version is the version of Kubernetes, such as 1.37.2.
	Version string `json:"version"`

	// Arch as Go names it: amd64, arm64.
	Arch string `json:"arch"`

	Files []File `json:"files"`
}

// File is a file of a bundle.
type File struct {
	// Name is relative to the directory of the bundle.
	Name   string `json:"name"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

// Image is an image in the OCI layout of a bundle.
type Image struct {
	// Name is a full reference, such as registry.k8s.io/pause:3.10.1.
	Name string
	// Digest is the digest of its manifest.
	Digest string
}

// Open reads the bundle in dir, and checks that it has all of its programs and
// that each file has its size. [Bundle.Verify] reads the files, too, which takes
// seconds. The error is [fs.ErrNotExist] only if there is no bundle at all.
func Open(dir string) (Bundle, error) {
	b := Bundle{Dir: dir}
	text, err := os.ReadFile(filepath.Join(dir, descriptionFile))
	if err != nil {
		return Bundle{}, fmt.Errorf("bundle of Kubernetes: %w", err)
	}

	if err := json.Unmarshal(text, &b.Description); err != nil {
		return Bundle{}, b.damaged(fmt.Errorf("%s: %w", descriptionFile, err))
	}
	if b.Format != Format {
		return Bundle{}, b.damaged(fmt.Errorf("%s: format %d, want %d", descriptionFile, b.Format,
			Format))
	}

	if err := b.check(); err != nil {
		return Bundle{}, b.damaged(err)
	}

	b.Images, err = readImages(b.Layout())
	if err != nil {
		return Bundle{}, b.damaged(err)
	}
	return b, nil
}

// damaged is an error about what the bundle has.
func (b Bundle) damaged(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New(err.Error()) // It is a file of the bundle.
	}
	err = fmt.Errorf("bundle of Kubernetes %s: %w", b.Dir, err)
	return hint.With(fault.With(err, fault.StateDamaged),
		"put the bundle there again, or remove the directory, so that it is fetched again")
}

// Bin returns the directory of the programs.
func (b Bundle) Bin() string { return filepath.Join(b.Dir, index.ProgramsDir) }

// Layout returns the directory of the OCI layout that has the images.
func (b Bundle) Layout() string { return filepath.Join(b.Dir, index.ImagesDir) }

// EtcdVersion returns what etcd prints as its version.
func (b Bundle) EtcdVersion(ctx context.Context) ([]byte, error) {
	text, err := exec.CommandContext(ctx, filepath.Join(b.Bin(), "etcd"), "--version").Output()
	if err != nil {
		return nil, b.damaged(fmt.Errorf("etcd --version: %w", err))
	}
	return text, nil
}

// check compares names and sizes.
func (b Bundle) check() error {
	for _, name := range Programs {
		if !slices.ContainsFunc(b.Files, func(f File) bool {
			return f.Name == path.Join(index.ProgramsDir, name)
		}) {
			return fmt.Errorf("%s: no program %s", descriptionFile, name)
		}
	}

	for _, f := range b.Files {
		if !filepath.IsLocal(f.Name) {
			return fmt.Errorf("%s: name %q leads out of the bundle", descriptionFile, f.Name)
		}
		info, err := os.Lstat(filepath.Join(b.Dir, f.Name))
		if err != nil {
			return err
		}
		if !info.Mode().IsRegular() || info.Size() != f.Size {
			return fmt.Errorf("%s: %s of %d bytes, want a file of %d",
				f.Name, info.Mode().Type(), info.Size(), f.Size)
		}
		if path.Dir(f.Name) == index.ProgramsDir && info.Mode()&0o100 == 0 {
			return fmt.Errorf("%s: not executable", f.Name)
		}
	}
	return nil
}

// readImages returns the images of an OCI layout.
func readImages(layout string) ([]Image, error) {
	text, err := os.ReadFile(filepath.Join(layout, ocispec.ImageIndexFile))
	if err != nil {
		return nil, err
	}
	var layoutIndex ocispec.Index
	if err := json.Unmarshal(text, &layoutIndex); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(index.ImagesDir, ocispec.ImageIndexFile), err)
	}

	var images []Image
	for _, m := range layoutIndex.Manifests {
		name := m.Annotations[ocispec.AnnotationRefName]
		images = append(images, Image{Name: name, Digest: m.Digest.String()})
	}
	return images, nil
}
