// Package upstream builds the container runtime of the image from the sources
// of the projects that publish it: containerd, runc and the plugins of CNI.
// Debian's stable release keeps versions for years, and did not get the fixes
// for the container escapes of November 2025 in time.
//
// Each project is pinned by a Go module in a directory of its own, runc,
// containerd and cni, with a go.sum, so that Loam's go.mod stays small and each
// program gets the versions of its dependencies that its authors have tested
// together. [github.com/loam-os/loam/image/floor] has the oldest versions that an image
// may have.
//
// Programs are built without paths, times and commits: the same sources, Go
// and tools tree give the same bytes. What was built is kept in the cache.
//
//	go.mod, go.sum, Go, tools tree --digest--> name in the cache
//	                                              |
//	project --module--> compilation --go build--> usr/bin, licences
package upstream

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loam-os/loam/image/cache"
	"github.com/loam-os/loam/image/tools"
)

// project is a project whose programs are in the image.
type project struct {
	// name is the directory of the Go module that pins the project, beside this
	// file, and the directory of its licence in /usr/share/doc.
	name string

	// module is the path of the project's own Go module.
	module string

	// programs are the paths of the packages below module, by their paths in
	// the image.
	programs map[string]string

	// version is the variable that the linker sets to the version, if any.
	version string

	// tags are build tags. cgo is set if the programs have C in them.
	tags string
	cgo  bool
}

var projects = [...]project{
	{
		name:   "containerd",
		module: "github.com/containerd/containerd/v2",
		programs: map[string]string{
			"usr/bin/containerd":              "cmd/containerd",
			"usr/bin/containerd-shim-runc-v2": "cmd/containerd-shim-runc-v2",
			"usr/bin/ctr":                     "cmd/ctr",
		},
		version: "github.com/containerd/containerd/v2/version.Version",
		tags:    "urfave_cli_no_docs",
	},
	{
		name:     "runc",
		module:   "github.com/opencontainers/runc",
		programs: map[string]string{"usr/bin/runc": "."},
		tags:     "seccomp,urfave_cli_no_docs",
		cgo:      true,
	},
	{
		name:   "cni",
		module: "github.com/containernetworking/plugins",
		programs: map[string]string{
			"usr/lib/cni/bandwidth":   "plugins/meta/bandwidth",
			"usr/lib/cni/bridge":      "plugins/main/bridge",
			"usr/lib/cni/firewall":    "plugins/meta/firewall",
			"usr/lib/cni/host-device": "plugins/main/host-device",
			"usr/lib/cni/host-local":  "plugins/ipam/host-local",
			"usr/lib/cni/ipvlan":      "plugins/main/ipvlan",
			"usr/lib/cni/loopback":    "plugins/main/loopback",
			"usr/lib/cni/macvlan":     "plugins/main/macvlan",
			"usr/lib/cni/portmap":     "plugins/meta/portmap",
			"usr/lib/cni/ptp":         "plugins/main/ptp",
			"usr/lib/cni/sbr":         "plugins/meta/sbr",
			"usr/lib/cni/static":      "plugins/ipam/static",
			"usr/lib/cni/tuning":      "plugins/meta/tuning",
			"usr/lib/cni/vlan":        "plugins/main/vlan",
			"usr/lib/cni/vrf":         "plugins/meta/vrf",
		},
		version: "github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion",
	},
}

// dir is the directory of this package in Loam's sources.
const dir = "image/upstream"

// Params say what to build.
type Params struct {
	// Cache is the directory that keeps the programs.
	Cache string

	// Source is the directory of Loam's sources.
	Source string

	// Arch as Go names it: amd64, arm64.
	Arch string

	// Log gets the output of the builds.
	Log io.Writer
}

// Ensure returns a directory with the programs and their licences at their
// paths in the image, which it builds if the cache has none. C is compiled by
// the compiler of the tools tree.
func Ensure(ctx context.Context, t tools.Tree, p Params) (string, error) {
	g, err := findGo(ctx)
	if err != nil {
		return "", fmt.Errorf("upstream programs: %w", err)
	}

	digest, err := p.digest(t, g)
	if err != nil {
		return "", fmt.Errorf("upstream programs: %w", err)
	}

	name := strings.Join([]string{"upstream", p.Arch, digest}, "-")
	entry, err := cache.Ensure(ctx, p.Cache, name, func(tmp string) error {
		for _, project := range projects {
			if err := p.build(ctx, t, g, project, tmp); err != nil {
				return fmt.Errorf("%s: %w", project.name, err)
			}
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("upstream programs: %w", err)
	}

	return entry, nil
}

// digest names the programs by all that decides their bytes, 12 hex digits. The
// version of Go is one of them: it has the standard library.
func (p Params) digest(t tools.Tree, g goTool) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, p.Arch, g.version, filepath.Base(t.Dir), flags(project{}, "VERSION"))

	for _, project := range projects {
		fmt.Fprintf(sum, "%+v\n", project)
		for _, file := range []string{"go.mod", "go.sum"} {
			text, err := os.ReadFile(filepath.Join(p.Source, dir, project.name, file))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s %d\n%s", file, len(text), text)
		}
	}

	return fmt.Sprintf("%x", sum.Sum(nil)[:6]), nil
}

// build puts the programs of a project, and its licence, into the directory
// out.
func (p Params) build(
	ctx context.Context, t tools.Tree, g goTool, project project, out string,
) error {
	source := filepath.Join(p.Source, dir, project.name)
	module, err := g.module(ctx, source, project.module)
	if err != nil {
		return err
	}

	run := g.compile
	if project.cgo {
		run = g.compileC(t)
	}

	for _, file := range project.files() {
		target := filepath.Join(out, file)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}

		err := run(ctx, compilation{
			source: source,
			target: target,
			arch:   p.Arch,
			flags:  flags(project, module.Version),
			pkg:    path.Join(project.module, project.programs[file]),
			log:    p.Log,
		})
		if err != nil {
			return fmt.Errorf("build %s: %w", filepath.Base(file), err)
		}
	}

	return copyLicence(filepath.Join(out, "usr/share/doc", project.name), module.Dir)
}

// files are the paths of the programs in the image, sorted.
func (p project) files() []string {
	var names []string
	for name := range p.programs {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// flags are flags of go build. Without information for debuggers, which the linker
// leaves out, the compiler takes an eighth less.
func flags(p project, version string) []string {
	linker := "-s -w -buildid="
	if p.version != "" {
		linker += " -X " + p.version + "=" + version
	}

	flags := []string{
		"-trimpath", "-buildvcs=false", "-mod=readonly",
		"-gcflags=all=-dwarf=false", "-ldflags=" + linker,
	}
	if p.tags != "" {
		flags = append(flags, "-tags="+p.tags)
	}
	if p.cgo {
		flags = append(flags, "-buildmode=pie")
	}

	return flags
}

// copyLicence writes what a project's licence wants to go along with its
// programs.
func copyLicence(to, module string) error {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}

	found := false
	for _, name := range []string{"LICENSE", "NOTICE"} {
		text, err := os.ReadFile(filepath.Join(module, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}

		found = true
		if err := os.WriteFile(filepath.Join(to, name), text, 0o644); err != nil {
			return err
		}
	}

	if !found {
		return fmt.Errorf("no licence in %s", module)
	}

	return nil
}
