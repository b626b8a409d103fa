package osc

import (
	"fmt"
	"path"
	"slices"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/cri"
)

// Mirrors returns the hosts.toml files of the document as they would be beneath
// dir instead of cri.HostsDir, together with the certificates that the document
// has for them, and the probes of those files that count only if their mirrors
// answer. An image that the document refers to is pulled before any of its
// files is in place. The document must have passed Validate.
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

	if !osc.Spec.CRIConfig.writesFiles() {
		return nil, nil, nil
	}

	var (
		files  []config.File
		probes []config.Probe
	)
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

		name := path.Join(dir, registry.Upstream, "hosts.toml")
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
