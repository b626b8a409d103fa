package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/loam-os/loam/image"
)

// completeBuilds offers the directories of builds, in this directory and in
// build, as the argument number at.
func completeBuilds(at int) cobra.CompletionFunc {
	return func(
		_ *cobra.Command, args []string, _ string,
	) ([]string, cobra.ShellCompDirective) {
		if len(args) != at {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return builds("."), cobra.ShellCompDirectiveDefault
	}
}

// builds returns the directories with a finished build. An error must not appear
// in the line that is being typed.
func builds(root string) []string {
	var found []string
	for _, pattern := range []string{"*", "build/*", "build/release/*"} {
		manifests, _ := filepath.Glob(filepath.Join(root, pattern, image.ManifestName))
		for _, manifest := range manifests {
			if rel, err := filepath.Rel(root, filepath.Dir(manifest)); err == nil {
				found = append(found, rel)
			}
		}
	}
	slices.Sort(found)
	return found
}

// completeFlash offers builds as the image, and the disks of this machine as the
// device.
func completeFlash(
	cmd *cobra.Command, args []string, typed string,
) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return disks("/sys/block"), cobra.ShellCompDirectiveNoFileComp
	}
	return completeBuilds(0)(cmd, args, typed)
}

// disks returns the block devices that can be flashed, with their model, as the
// kernel lists them in sys (sysfs(5)).
func disks(sys string) []string {
	entries, _ := os.ReadDir(sys)
	var found []string
	for _, e := range entries {
		name := e.Name()
		size, err := os.ReadFile(filepath.Join(sys, name, "size"))
		if err != nil || strings.TrimSpace(string(size)) == "0" || isVirtual(name) {
			continue
		}
		model, _ := os.ReadFile(filepath.Join(sys, name, "device/model"))
		device := "/dev/" + name
		if text := strings.TrimSpace(string(model)); text != "" {
			device = cobra.CompletionWithDesc(device, text)
		}
		found = append(found, device)
	}
	return found
}

// isVirtual reports whether a block device is no disk, but made of others or of
// memory.
func isVirtual(name string) bool {
	return slices.ContainsFunc([]string{"loop", "ram", "zram", "dm-", "md", "nbd", "sr"},
		func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}

// completeVersions offers the releases in the directory that the flag
// --repository names.
func completeVersions(
	cmd *cobra.Command, _ []string, _ string,
) ([]string, cobra.ShellCompDirective) {
	repository, _ := cmd.Flags().GetString("repository")
	return versions(repository), cobra.ShellCompDirectiveNoFileComp
}

// versions returns the versions of the releases in a repository. They are only
// offered, so nothing is verified.
func versions(repository string) []string {
	indexes, _ := filepath.Glob(filepath.Join(repository, "targets", "*.index.json"))
	var found []string
	for _, file := range indexes {
		var index struct {
			Version string `json:"version"`
		}
		text, err := os.ReadFile(file)
		if err == nil && json.Unmarshal(text, &index) == nil && index.Version != "" {
			found = append(found, index.Version)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
