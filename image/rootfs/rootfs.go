// Package rootfs makes the root file system: by mkosi a tree of Debian
// packages, trimmed, and from that tree an erofs image with the loam binary
// and os-release in it. Both come from a cache when their inputs are the same.
//
// mkosi/units.list is the whole list of what systemd starts; all generators are
// removed. loam and os-release are not in the tree, so a change of either does
// not run mkosi again. logind runs, for the power button and for the kubelet's
// graceful shutdown. getty does not, and there is no user to log in as.
//
// The profile metal has device firmware, too: what
// firmware/device/firmware.list names of Debian's packages, and no more. A test
// asks modinfo which files the drivers want; each must be there, or on the list
// with a reason.
//
//	mkosi/, lock, overlay --digest--> name in the cache
//	        |                             |
//	        +---Tree: mkosi, prune------> Root: tree/, packages.json, kernel
//	                                      |
//	                                      +--mkfs.erofs--> base, in the cache
//	                                                         |
//	        loam, os-release --Image: tar, incremental-------+--> root.erofs
package rootfs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/loam-os/loam/firmware/device"
	"github.com/loam-os/loam/image/cache"
	"github.com/loam-os/loam/image/lock"
	"github.com/loam-os/loam/image/tools"
)

// Params say which root tree to make.
type Params struct {
	// Cache is the directory that keeps trees, images and Debian packages.
	Cache string
	// Config is the directory of the mkosi configuration.
	Config string
	// Arch as Go names it: amd64, arm64. Profile is one of mkosi.profiles.
	Arch, Profile string
	// Firmware is what the tree has for devices, beside what Config says.
	Firmware device.List
	// Lock has the versions of the packages. Without one, they are those that
	// the archives have.
	Lock lock.Lock
	// Overlay is a directory whose files come on top of the packages. Its name
	// has a digest of its content (image/upstream).
	Overlay string
	// SourceDateEpoch is the latest time of any file, in seconds since 1970.
	SourceDateEpoch int64
	// Log gets the output of the tools.
	Log io.Writer
}

// Root is a finished root tree, not to be written to.
type Root struct {
	// Dir is the tree; Kernel the kernel image, which is not in the erofs
	// image, and nor are processors' microcode; Packages the list of packages,
	// JSON as manifest.Package has it.
	Dir, Kernel, Packages string
	// entry is the tree's directory in the cache.
	entry string
}

// Tree returns the root tree of p, built by mkosi if the cache has none.
func Tree(ctx context.Context, t tools.Tree, p Params) (Root, error) {
	digest, err := p.digest(t)
	if err != nil {
		return Root{}, fmt.Errorf("root tree: %w", err)
	}

	name := strings.Join([]string{"root", p.Arch, p.Profile, digest}, "-")
	entry, err := cache.Ensure(ctx, p.Cache, name, func(tmp string) error {
		return p.build(ctx, t, tmp)
	})
	if err != nil {
		return Root{}, fmt.Errorf("root tree: %w", err)
	}

	return open(entry)
}

// open finds the parts of a finished entry.
func open(entry string) (Root, error) {
	root := Root{
		Dir:      filepath.Join(entry, "tree"),
		Packages: filepath.Join(entry, "packages.json"),
		entry:    entry,
	}

	kernels, err := filepath.Glob(filepath.Join(root.Dir, "usr/lib/modules/*/vmlinuz"))
	if err != nil || len(kernels) != 1 {
		return Root{}, fmt.Errorf("root tree %s: %d kernels, not one", root.Dir, len(kernels))
	}

	root.Kernel = kernels[0]
	return root, nil
}

// digest names a tree by its inputs, 12 hex digits: the mkosi configuration,
// the versions of the packages, and the other parameters.
func (p Params) digest(t tools.Tree) (string, error) {
	// p.Lock need not come from the lock of this directory.
	config, err := Digest(p.Config, "packages.lock")
	if err != nil {
		return "", err
	}

	inputs := fmt.Appendln(nil, config, filepath.Base(t.Dir), p.Lock.Digest(), p.Arch, p.Profile,
		p.Firmware.Entries, filepath.Base(p.Overlay), p.SourceDateEpoch)
	sum := sha256.Sum256(inputs)
	return hex.EncodeToString(sum[:6]), nil
}

// build fills dir with tree/ and packages.json.
func (p Params) build(ctx context.Context, t tools.Tree, dir string) error {
	if len(p.Lock) > 0 {
		if err := tools.CheckLock(ctx, p.Log, p.Lock, t.Sources, p.Arch); err != nil {
			return err
		}
	}

	options := []string{"--profile=" + p.Profile}
	for _, name := range p.Firmware.Packages() {
		options = append(options, "--package="+name)
	}
	if err := p.Mkosi(ctx, t, dir, "tree", nil, options...); err != nil {
		return err
	}

	if err := prune(filepath.Join(dir, "tree", device.Dir), p.Firmware); err != nil {
		return err
	}

	if err := overlay(filepath.Join(dir, "tree"), p.Overlay); err != nil {
		return err
	}

	err := recordPackages(filepath.Join(dir, "tree.manifest"), filepath.Join(dir, "tree"),
		filepath.Join(dir, "packages.json"))
	if err != nil {
		return err
	}

	if err := checkVersions(filepath.Join(dir, "packages.json"), p.Lock); err != nil {
		return err
	}

	return removeAll(dir, "tree.manifest", "tree.vmlinuz", filepath.Join("tree", lists))
}
