package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/mount"
)

// holders are what the kernel has made of a device: mappings, arrays.
func (m Machine) holders(dir string) []string {
	var out []string
	entries, _ := fs.ReadDir(m.Root, dir+"/holders")
	for _, e := range entries {
		out = append(out, "held by "+e.Name())
	}
	return out
}

// distinct leaves out uses that are there before: both partitions of a slot are
// held by one mapping.
func distinct(uses []string) []string {
	var out []string
	for _, use := range uses {
		if !slices.Contains(out, use) {
			out = append(out, use)
		}
	}
	return out
}

// uses returns what devices are used for, mounts and swap areas, by their
// numbers as in sysfs (8:1).
func (m Machine) uses() (map[string][]string, error) {
	out := map[string][]string{}
	mounts, err := fs.ReadFile(m.Root, mount.Path)
	if err != nil {
		return nil, fmt.Errorf("list mounts: %w", err)
	}
	for _, at := range mount.Parse(string(mounts)) {
		if use := "mounted at " + at.Point; !slices.Contains(out[at.Device], use) {
			out[at.Device] = append(out[at.Device], use)
		}
	}

	swaps, err := fs.ReadFile(m.Root, "proc/swaps")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list swap areas: %w", err)
	}
	for line := range strings.Lines(string(swaps)) {
		f := strings.Fields(line)
		if len(f) == 0 || !strings.HasPrefix(f[0], "/dev/") {
			continue
		}
		name := strings.ReplaceAll(strings.TrimPrefix(f[0], "/dev/"), "/", "!")
		if number := m.text(path.Join("sys/class/block", name, "dev")); number != "" {
			out[number] = append(out[number], "swap area")
		}
	}
	return out, nil
}
