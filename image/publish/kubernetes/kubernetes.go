// Package kubernetes makes a Kubernetes bundle of what the projects publish:
// the programs of etcd and Kubernetes, and images. [Make] is the function to use.
//
//	DIR, or an artifact of a registry --> programs, OCI layouts, archives of them
//	                                          |
//	              for one architecture, checked, sorted: bin/, images/
//	                                          |
//	                                          +--> pack, bundle.Kubernetes
//
// Files are taken as they are, so that each keeps the digest that its project
// has published. Equal sources give equal bytes.
package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/meter"
)

// Params say what bundle to make, and of what.
type Params struct {
	Version, Arch string

	// From is a directory, or oci://HOST/NAME:TAG.
	From string

	// Work is an empty directory for the pack.
	Work string

	Report meter.Report
}

// Bundle is a bundle that was made.
type Bundle struct {
	Index bundle.Kubernetes
	// Pack is the file with the pack.
	Pack string
}

// Make makes the bundle. What is missing or of another architecture or version is
// an error that names all of it.
func Make(ctx context.Context, p Params) (Bundle, error) {
	if _, err := bundle.KubernetesBase(p.Version, p.Arch); err != nil {
		return Bundle{}, fault.With(err, fault.Usage)
	}
	dir, err := p.source(ctx)
	if err != nil {
		return Bundle{}, err
	}

	found, err := search(dir)
	if err != nil {
		return Bundle{}, err
	}
	files, missing := found.programs(p.Version, p.Arch)
	images, missingImages := found.images(ctx, p.Arch, filepath.Join(p.Work, "images"))
	if err := errors.Join(missing, missingImages); err != nil {
		return Bundle{}, hint.With(
			fault.With(fmt.Errorf("%s:\n%w", p.From, err), fault.ContentMissing),
			"put the programs of Kubernetes %s and etcd for %s there, and an OCI layout, or "+
				"archives of one, with the images %s",
			p.Version, p.Arch, strings.Join(bundle.KubernetesImages(), " and "))
	}

	maps.Copy(files, images)
	return p.pack(ctx, files)
}

// pack makes the pack of files by their names.
func (p Params) pack(ctx context.Context, files map[string]string) (b Bundle, err error) {
	in := bundle.KubernetesSources{
		Version: p.Version,
		Arch:    p.Arch,
		Files:   map[string]bundle.Source{},
	}
	all := int64(0)
	for name, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return Bundle{}, err
		}
		defer f.Close()

		info, err := f.Stat()
		if err != nil {
			return Bundle{}, err
		}
		in.Files[name] = bundle.Source{ReaderAt: f, Size: info.Size()}
		all += info.Size()
	}

	part := meter.Begin(ctx, "pack", all, p.Report)
	for name, source := range in.Files {
		in.Files[name] = bundle.Source{ReaderAt: part.ReaderAt(source), Size: source.Size}
	}

	b.Pack = filepath.Join(p.Work, "pack")
	pack, err := os.Create(b.Pack)
	if err != nil {
		return Bundle{}, err
	}
	b.Index, err = bundle.WriteKubernetes(pack, in)
	return b, errors.Join(err, pack.Sync(), pack.Close())
}

// found is what a directory has.
type found struct {
	dir string
	// files are the paths of the files that have the name of a program.
	files map[string][]string
	// layouts are directories and archives with an OCI layout, others are archives
	// without.
	layouts, others []string
}

// search looks for programs and images in all of dir.
func search(dir string) (found, error) {
	f := found{dir: dir, files: map[string][]string{}}
	wanted := map[string]bool{}
	for _, name := range bundle.KubernetesPrograms() {
		wanted[name] = true
	}

	err := filepath.WalkDir(dir, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && isLayout(file):
			f.layouts = append(f.layouts, file)
			return fs.SkipDir
		case entry.IsDir():
		case wanted[entry.Name()]:
			f.files[entry.Name()] = append(f.files[entry.Name()], file)
		case path.Ext(entry.Name()) == ".tar":
			return f.archive(file)
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return f, fault.With(err, fault.FileMissing)
	}
	return f, err
}

// programs returns the files of the programs by their names in a bundle.
func (f found) programs(version, arch string) (map[string]string, error) {
	files := map[string]string{}
	var faults []error
	for _, name := range bundle.KubernetesPrograms() {
		switch paths := f.files[name]; len(paths) {
		case 0:
			faults = append(faults, fmt.Errorf("%s: there is no such program", name))
		case 1:
			files[path.Join(bundle.ProgramsDir, name)] = paths[0]
			faults = append(faults, checkProgram(paths[0], version, arch))
		default:
			faults = append(faults, fmt.Errorf("%s: there are %d, %s", name, len(paths),
				strings.Join(paths, ", ")))
		}
	}
	return files, errors.Join(faults...)
}
