// Package tools is the tools tree: a Debian root directory with the programs
// that build and judge images, so that every host builds with the same ones.
// The host itself needs mmdebstrap to make it and bubblewrap to enter it.
//
// mmdebstrap makes the tree and bubblewrap enters it. Packages have the
// versions of a lock (image/lock), which is compared with the archives before
// anything is installed.
//
// An arm64 image is built on amd64 by the same steps. The tools tree then has
// qemu-user, registered with binfmt_misc until the next boot, and the arm64
// systemd-boot.
//
//	sources --OpenArchive--> Archive --Resolve--> lock.Lock
//	                                                 |
//	                            Ensure: CheckLock, mmdebstrap, cache
//	                                                 |
//	                                                 v
//	          bwrap <--Command-- Tree --Package--> version for the SBOM
package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/cache"
	"github.com/loam-os/loam/image/lock"
)

// keyring signs Debian's archives; of the package debian-archive-keyring.
const keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// ErrNotRoot says that only root can make trees whose files belong to root.
var ErrNotRoot = hint.With(fault.With(errors.New("only root can build a tree"), fault.NotPermitted),
	"run the same command with sudo")

// Env is what a tools tree is made from.
type Env struct {
	// Cache is the directory that keeps the tree.
	Cache string

	// Packages are the names of the Debian packages in it.
	Packages []string

	// Mirrors are the URIs of Debian archives to use instead of the ones this
	// host uses or, on other distributions, of mmdebstrap's default.
	Mirrors []string

	// Lock has the versions of the packages. Without one, the tree gets those
	// that the archives have when it is built.
	Lock lock.Lock

	// Log gets the output of the build.
	Log io.Writer
}

// Tree is a complete tools tree.
type Tree struct {
	// Dir is its root directory. Read it, never write it.
	Dir string
	// Sources is where more packages of the same release come from.
	Sources []Source
}

// ReadList reads lists of packages, one a line, with # comments.
func ReadList(files ...string) ([]string, error) {
	var packages []string
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("list of packages: %w", err)
		}
		for line := range bytes.Lines(text) {
			if word := strings.TrimSpace(string(line)); word != "" && word[0] != '#' {
				packages = append(packages, word)
			}
		}
	}

	slices.Sort(packages)
	return slices.Compact(packages), nil
}

// InSource returns what the sources in a directory make a tools tree from:
// their lists of packages, and their lock. The rest is for the caller to say.
func InSource(source string) (Env, error) {
	packages, err := ReadList(filepath.Join(source, "mkosi/tools.list"))
	if err != nil {
		return Env{}, err
	}

	locks, err := lock.Read(filepath.Join(source, "mkosi/packages.lock"))
	if err != nil {
		return Env{}, err
	}

	return Env{Packages: packages, Lock: locks.Tools}, nil
}

// Ensure returns the tools tree of e, which it builds if the cache has none.
func Ensure(ctx context.Context, e Env) (Tree, error) {
	sources, err := e.FindSources(ctx)
	if err != nil {
		return Tree{}, err
	}

	dir, err := cache.Ensure(ctx, e.Cache, "tools-"+e.digest(), func(tmp string) error {
		return e.build(ctx, tmp, sources)
	})
	if err != nil {
		return Tree{}, fmt.Errorf("tools tree: %w", err)
	}

	if len(sources) == 0 {
		sources, err = readSources(dir)
		if err != nil {
			return Tree{}, err
		}
	}

	return Tree{Dir: dir, Sources: sources}, nil
}

// FindSources decides where packages come from; none means mmdebstrap's
// default.
func (e Env) FindSources(ctx context.Context) ([]Source, error) {
	if len(e.Mirrors) > 0 {
		return Mirror(e.Mirrors...), nil
	}
	host, err := HostMirrors(ctx)
	return Mirror(host...), err
}

// digest names the tree by its content, 12 hex digits. The mirror is not part
// of it: with a lock, all mirrors hold the same packages.
func (e Env) digest() string {
	sum := sha256.Sum256([]byte(
		Release + "\n" + strings.Join(e.Packages, "\n") + "\n" + e.Lock.Digest()))
	return fmt.Sprintf("%x", sum[:6])
}

// Architectures returns the architectures of a tree with these packages: the
// host's own first, then those they name, as systemd-boot-efi:arm64 does.
func Architectures(native string, packages []string) []string {
	all := []string{native}
	for _, p := range packages {
		if _, arch, ok := strings.Cut(p, ":"); ok && !slices.Contains(all, arch) {
			all = append(all, arch)
		}
	}
	return all
}

func (e Env) build(ctx context.Context, dir string, sources []Source) error {
	if os.Geteuid() != 0 {
		return ErrNotRoot
	}

	archs := Architectures(runtime.GOARCH, e.Packages)
	args := []string{"--mode=root", "--variant=minbase", "--keyring=" + keyring,
		"--architectures=" + strings.Join(archs, ","),
		"--include=" + strings.Join(e.Packages, ",")}

	if len(e.Lock) > 0 {
		if err := CheckLock(ctx, e.Log, e.Lock, sources, archs...); err != nil {
			return err
		}

		preferences := dir + ".preferences"
		if err := os.WriteFile(preferences, []byte(e.Lock.Preferences()), 0o644); err != nil {
			return err
		}
		defer os.Remove(preferences)

		args = append(args, "--setup-hook=install -D -m 644 "+preferences+
			` "$1/etc/apt/preferences.d/loam"`)
	}

	args = append(args, Release, dir)
	for _, s := range sources {
		args = append(args, s.String())
	}

	cmd := exec.CommandContext(ctx, "mmdebstrap", args...)
	cmd.Stdout = e.Log
	cmd.Stderr = e.Log

	// mmdebstrap mounts inside the tree. In a mount namespace of its own, what
	// it leaves when it is killed is not there for a later removal to run into.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGTERM,
	}

	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mmdebstrap: %w", err)
	}

	// bubblewrap mounts the host's resolver configuration over this file.
	resolv := filepath.Join(dir, "etc/resolv.conf")
	if err := os.RemoveAll(resolv); err != nil {
		return err
	}

	return os.WriteFile(resolv, nil, 0o644)
}
