package rootfs

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loam-os/loam/image/lock"
	"github.com/loam-os/loam/image/manifest"
)

// recordPackages turns mkosi's manifest into the list of packages with files in
// the tree. It leaves out the stand-in of mkosi.skeleton, which is in no
// archive.
func recordPackages(mkosiManifest, tree, list string) error {
	text, err := os.ReadFile(mkosiManifest)
	if err != nil {
		return err
	}

	packages, err := parsePackages(text)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(mkosiManifest), err)
	}

	status, err := os.ReadFile(filepath.Join(tree, lists, "status"))
	if err != nil {
		return err
	}
	addSources(packages, string(status))

	packages, err = remaining(tree, packages)
	if err != nil {
		return err
	}

	text, err = json.MarshalIndent(packages, "", "  ")
	if err != nil {
		return err
	}

	return os.WriteFile(list, append(text, '\n'), 0o644)
}

// parsePackages reads mkosi's manifest, version 1.
func parsePackages(text []byte) ([]manifest.Package, error) {
	var m struct {
		Packages []struct{ Name, Version, Architecture string }
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, err
	}

	packages := []manifest.Package{}
	for _, p := range m.Packages {
		packages = append(packages,
			manifest.Package{Name: p.Name, Version: p.Version, Arch: p.Architecture})
	}

	packages = slices.DeleteFunc(packages, func(p manifest.Package) bool {
		return p.Name == "loam-init"
	})
	if len(packages) == 0 {
		return nil, fmt.Errorf("no packages")
	}

	return packages, nil
}

// addSources sets the source packages, as dpkg's status names them: "Source:
// NAME (VERSION)", without what is the same as of the package (deb822(5),
// deb-control(5)).
func addSources(packages []manifest.Package, status string) {
	sources := map[string]string{}
	for paragraph := range strings.SplitSeq(status, "\n\n") {
		var name, arch, source string
		for line := range strings.Lines(paragraph) {
			field, value, _ := strings.Cut(strings.TrimRight(line, "\n"), ": ")
			switch field {
			case "Package":
				name = value
			case "Architecture":
				arch = value
			case "Source":
				source = value
			}
		}
		sources[name+":"+arch] = source
	}

	for i, p := range packages {
		packages[i].SetSource(sources[p.Name+":"+p.Arch])
	}
}

// lists is where mkosi.postinst leaves dpkg's lists of files in a tree, and its
// status.
const lists = ".packages"

// remaining returns the packages of which the tree still has a file, other than
// documentation: of a package whose files were all removed, no scanner has to
// warn.
func remaining(tree string, packages []manifest.Package) ([]manifest.Package, error) {
	var left []manifest.Package
	for _, p := range packages {
		files, err := listFiles(filepath.Join(tree, lists), p)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(files, func(name string) bool { return isThere(tree, name) }) {
			left = append(left, p)
		}
	}
	return left, nil
}

// listFiles reads dpkg's list of a package's files. Its name has the
// architecture if the package may be there for several.
func listFiles(dir string, p manifest.Package) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(dir, p.Name+".list"))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = os.ReadFile(filepath.Join(dir, p.Name+":"+p.Arch+".list"))
	}
	if err != nil {
		return nil, fmt.Errorf("files of package %s: %w", p.Name, err)
	}
	return strings.Split(strings.TrimSpace(string(text)), "\n"), nil
}

// isThere reports whether the file name, a path of a package, is in the tree,
// and says something of it: a directory or a licence does not.
func isThere(tree, name string) bool {
	if strings.HasPrefix(name, "/usr/share/doc/") {
		return false
	}
	info, err := os.Lstat(filepath.Join(tree, name))
	return err == nil && !info.IsDir()
}

// ReadPackages reads the list of the packages in a root tree, sorted by name.
func (r Root) ReadPackages() ([]manifest.Package, error) {
	text, err := os.ReadFile(r.Packages)
	if err != nil {
		return nil, fmt.Errorf("packages of the root tree: %w", err)
	}

	var packages []manifest.Package
	if err := json.Unmarshal(text, &packages); err != nil {
		return nil, fmt.Errorf("packages of the root tree: %w", err)
	}

	return packages, nil
}

// checkVersions compares the list of packages with a lock, if there is one.
func checkVersions(list string, l lock.Lock) error {
	if len(l) == 0 {
		return nil
	}

	packages, err := Root{Packages: list}.ReadPackages()
	if err != nil {
		return err
	}

	for _, p := range packages {
		want, ok := l.Find(p.Name, p.Arch)
		if !ok || want.Version != p.Version {
			return fmt.Errorf("%s %s %s is installed, and is not in the lock", p.Name, p.Arch,
				p.Version)
		}
	}

	return nil
}
