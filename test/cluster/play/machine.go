package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/image/tools"
	"github.com/loam-os/loam/test/vm"
)

// readManifest reads the manifest of the build. The kubelet is for its nodes.
func readManifest(build string) (manifest.Manifest, error) {
	text, err := os.ReadFile(filepath.Join(build, image.ManifestName))
	if err != nil {
		return manifest.Manifest{}, fmt.Errorf("%w\nhint: `make image` builds it", err)
	}

	m, err := manifest.Decode(text)
	if err == nil && m.Arch != runtime.GOARCH {
		err = fmt.Errorf("%s: an image for %s: the kubelet is built for %s",
			build, m.Arch, runtime.GOARCH)
	}

	return m, err
}

// machine makes a machine of the image, in a directory of its own, since the
// names of sockets are short.
func (s *session) machine(ctx context.Context) (vm.Config, vm.Runner, error) {
	m, err := readManifest(s.build)
	if err != nil {
		return vm.Config{}, nil, err
	}

	build, err := filepath.Abs(s.build)
	if err != nil {
		return vm.Config{}, nil, err
	}

	tree, err := toolsTree(ctx)
	if err != nil {
		return vm.Config{}, nil, err
	}

	temp, err := os.MkdirTemp("", "loam")
	if err != nil {
		return vm.Config{}, nil, err
	}

	s.later(func() { os.RemoveAll(temp) })
	run := func(ctx context.Context, name string, args ...string) *exec.Cmd {
		return tree.Command(ctx, []string{temp, build}, name, args...)
	}

	base := filepath.Join(build, m.Files[0].Name) // the raw image is the first
	config, err := vm.Prepare(ctx, tree.Dir, run, vm.Image{
		Arch:       m.Arch,
		Base:       base,
		DiskSize:   "8G",
		SectorSize: m.SectorSize,
	}, temp)
	return config, run, err
}

// toolsTree is the tools tree that built the image, from the cache.
func toolsTree(ctx context.Context) (tools.Tree, error) {
	env, err := tools.InSource(".")
	if err != nil {
		return tools.Tree{}, err
	}

	cache, err := os.UserCacheDir()
	if err != nil {
		return tools.Tree{}, err
	}

	env.Cache = filepath.Join(cache, "loam")
	env.Log = io.Discard
	return tools.Ensure(ctx, env)
}
