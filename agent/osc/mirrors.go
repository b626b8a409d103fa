package osc

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/cri"
)

// hostsFile is what a directory of a registry has (containerd docs/hosts.md).
const hostsFile = "hosts.toml"

// Mirrors returns the hosts.toml files of the document as they would be beneath
// dir instead of cri.HostsDir, together with the certificates that the document
// has for them, and the probes of those files that count only if their mirrors
// answer. A hosts.toml that is a file of the document counts, too, with the inline
// files beside it and those that it names. An image that the document refers to is
// pulled before any of its files is in place. The document must have passed
// Validate.
func Mirrors(osc OperatingSystemConfig, env Env, dir string) (
	[]config.File, []config.Probe, error,
) {
	inline := map[string]File{}
	for _, file := range osc.files() {
		_, refers := file.value.Content.reference()
		if !refers && file.value.isFor(env) && !file.value.isLeftOut() {
			inline[file.value.Path] = file.value
		}
	}

	files, err := plainMirrors(inline, env, dir)
	if err != nil || !osc.Spec.CRIConfig.writesFiles() {
		return files, nil, err
	}

	var probes []config.Probe
	for i, registry := range osc.Spec.CRIConfig.registries() {
		for h := range registry.Hosts {
			registry.Hosts[h].CACerts = slices.Clone(registry.Hosts[h].CACerts)
			for c, name := range (cri.Registry{
				Upstream: registry.Upstream,
				Hosts:    registry.Hosts[h : h+1],
			}).CACerts() {
				file, ok := inline[name]
				if !ok {
					registry.Hosts[h].CACerts[c] = name // The node has it, or it does not exist.
					continue
				}

				desired, err := file.desired(env)
				if err != nil {
					return nil, nil, err
				}

				// A directory of a registry counts for containerd even without
				// a hosts.toml.
				desired.Path = path.Join(dir, "_authorities",
					fmt.Sprintf("%s-%d-%d.crt", registry.Upstream, h, c))
				registry.Hosts[h].CACerts[c] = desired.Path
				files = append(files, desired)
			}
		}

		name := path.Join(dir, registry.Upstream, hostsFile)
		files = append(files,
			config.File{Path: name, Mode: 0o644, Content: config.Text(cri.Hosts(registry))})
		if osc.Spec.CRIConfig.probes(i) {
			probe := probeOf(registry)
			probe.Path = name
			probes = append(probes, probe)
		}
	}

	return files, probes, nil
}

// plainMirrors returns the directories of registries that inline files make up, as
// they would be beneath dir.
func plainMirrors(inline map[string]File, env Env, dir string) ([]config.File, error) {
	var files []config.File
	for _, name := range slices.Sorted(maps.Keys(inline)) {
		upstream := path.Dir(name)
		if path.Dir(upstream) != cri.HostsDir || path.Base(name) != hostsFile {
			continue
		}

		hosts, err := inline[name].Content.Inline.decode()
		if err != nil {
			return nil, err
		}
		text := string(hosts)
		for i, other := range slices.Sorted(maps.Keys(inline)) {
			desired, err := inline[other].desired(env)
			if err != nil {
				return nil, err
			}
			if path.Dir(other) == upstream && other != name {
				beside := desired
				beside.Path = path.Join(dir, path.Base(upstream), path.Base(other))
				files = append(files, beside)
			}

			quoted := func(mark string) bool { return strings.Contains(text, mark+other+mark) }
			if other == name || (!quoted(`"`) && !quoted("'")) {
				continue
			}
			desired.Path = path.Join(dir, "_authorities",
				fmt.Sprintf("%s-file-%d", path.Base(upstream), i))
			files = append(files, desired)
			for _, mark := range []string{`"`, "'"} {
				text = strings.ReplaceAll(text, mark+other+mark, mark+desired.Path+mark)
			}
		}
		files = append(files, config.File{
			Path:    path.Join(dir, path.Base(upstream), hostsFile),
			Mode:    0o644,
			Content: config.Text(text),
		})
	}
	return files, nil
}
