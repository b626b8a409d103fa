package rootfs

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/loam-os/loam/image/manifest"
)

// recordPackages turns mkosi's manifest into the list of packages. What is in
// no archive, the stand-in of mkosi.skeleton, is left out.
func recordPackages(mkosiManifest, list string) error {
	text, err := os.ReadFile(mkosiManifest)
	if err != nil {
		return err
	}

	packages, err := parsePackages(text)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Base(mkosiManifest), err)
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
