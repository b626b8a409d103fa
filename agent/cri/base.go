package cri

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Base is the containerd of an image. The zero Base is an image without one.
type Base struct {
	// Config is the image's config.toml, empty if it has none.
	Config []byte

	// Schema is the version of the configuration, 2 or more; 0 means 2.
	Schema int

	// BinDirs is set if the directories of CNI plugins are a list, cni.bin_dirs
	// (containerd 2.2 and later).
	BinDirs bool
}

// Observe reads the Base of an image from its root file system, which must not
// contain files of a configuration yet.
func Observe(image *os.Root) (Base, error) {
	config, err := image.ReadFile(strings.TrimPrefix(ConfigFile, "/"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Base{}, fmt.Errorf("read the image's containerd configuration: %w", err)
	}

	info, err := buildInfo(image)
	if err != nil {
		return Base{}, err
	}

	schema, err := Schema(config, info)
	if err != nil {
		return Base{}, err
	}

	return Base{Config: config, Schema: schema, BinDirs: hasBinDirs(info)}, nil
}

// buildInfo returns nil for an image without containerd and for a containerd
// that is not a Go program: schema 2, which every version reads, is right for a
// wrapper.
func buildInfo(image *os.Root) (*debug.BuildInfo, error) {
	binary, err := image.Open("usr/bin/containerd")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}

	if err != nil {
		return nil, fmt.Errorf("open the image's containerd: %w", err)
	}

	defer binary.Close()
	info, err := buildinfo.Read(binary)
	if err != nil {
		return nil, nil
	}

	return info, nil
}

// Schema returns the version of config, or without one the newest that the
// containerd with this build information can read (nil: unknown).
func Schema(config []byte, info *debug.BuildInfo) (int, error) {
	var head struct {
		Version int `toml:"version"`
	}
	if err := toml.Unmarshal(config, &head); err != nil {
		return 0, fmt.Errorf("parse the image's containerd configuration: %w", err)
	}

	switch {
	case head.Version != 0:
		return head.Version, nil
	case info != nil && strings.Contains(info.Path, "containerd/v2"):
		return 3, nil
	}
	return 2, nil
}

// hasBinDirs returns false if the version is unknown, as in Debian's builds:
// the older name works with more versions.
func hasBinDirs(info *debug.BuildInfo) bool {
	if info == nil {
		return false
	}

	for _, module := range append(slices.Clip(info.Deps), &info.Main) {
		var major, minor int
		if !strings.HasSuffix(module.Path, "containerd/containerd/v2") {
			continue
		}
		if _, err := fmt.Sscanf(module.Version, "v%d.%d", &major, &minor); err == nil {
			return major > 2 || (major == 2 && minor >= 2)
		}
	}
	return false
}
