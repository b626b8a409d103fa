package tools

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/image/manifest"
)

// Package returns a package that is installed in the tree, for an architecture.
func (t Tree) Package(name, arch string) (manifest.Package, error) {
	f, err := os.Open(filepath.Join(t.Dir, "var/lib/dpkg/status"))
	if err != nil {
		return manifest.Package{}, fmt.Errorf("packages of the tools tree: %w", err)
	}
	defer f.Close()

	var p manifest.Package
	source := "" // dpkg writes it before the version
	sc := bufio.NewScanner(f)
	sc.Buffer(nil, 1<<20)
	for sc.Scan() {
		key, value, _ := strings.Cut(sc.Text(), ": ")
		switch key {
		case "Package":
			p = manifest.Package{Name: value}
			source = ""
		case "Architecture":
			p.Arch = value
		case "Source":
			source = value
		case "Version":
			p.Version = value
			p.SetSource(source)
		}
		if p.Name == name && p.Arch == arch && p.Version != "" {
			return p, nil
		}
	}
	if err := sc.Err(); err != nil {
		return manifest.Package{}, fmt.Errorf("packages of the tools tree: %w", err)
	}

	return manifest.Package{}, fmt.Errorf("tools tree: no package %s for %s", name, arch)
}
