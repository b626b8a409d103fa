package osc

import (
	"path"
	"slices"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/cri"
)

// writesFiles reports whether criConfig changes containerd's files.
func (c *CRIConfig) writesFiles() bool {
	return c != nil && (c.Containerd != nil || c.CgroupDriver != nil)
}

// written returns the paths that criConfig writes, by the field they come from.
func (c *CRIConfig) written() map[string]string {
	paths := map[string]string{}
	if !c.writesFiles() {
		return paths
	}

	paths[cri.ConfigFile] = criPath
	paths[path.Join(unitDir, cri.Unit+".d", cri.DropInName)] = criPath

	for i, registry := range c.registries() {
		paths[registry.File()] = item(containerdPath+".registries", i)
	}

	return paths
}

// mergeCRIUnit makes containerd restart when config.toml changes. containerd
// reads hosts.toml for each pull, so a change of it needs no restart.
func mergeCRIUnit(units map[string]*config.Unit, c *CRIConfig) {
	if !c.writesFiles() {
		return
	}
	mergeUnit(unitOf(units, cri.Unit), Unit{
		DropIns:   []DropIn{{Name: cri.DropInName, Content: cri.DropIn}},
		FilePaths: []string{cri.ConfigFile},
	})
}

// mergeCRI adds containerd's files.
func mergeCRI(desired *config.Desired, c *CRIConfig, env Env) error {
	if !c.writesFiles() {
		return nil
	}

	text, err := cri.Render(c.render(), env.Containerd)
	if err != nil {
		return err
	}

	desired.Files = append(desired.Files,
		config.File{Path: cri.ConfigFile, Mode: 0o644, Content: config.Text(text)})
	for i, registry := range c.registries() {
		desired.Files = append(desired.Files,
			config.File{
				Path:    registry.File(),
				Mode:    0o644,
				Content: config.Text(cri.Hosts(registry)),
			})
		if c.probes(i) {
			desired.Probes = append(desired.Probes, probeOf(registry))
		}
	}

	return nil
}

// probes reports whether the i-th registry counts only if its mirrors answer.
func (c *CRIConfig) probes(i int) bool {
	registry := c.Containerd.Registries[i]
	return registry.ReadinessProbe != nil && *registry.ReadinessProbe && len(registry.Hosts) > 0
}

func probeOf(registry cri.Registry) config.Probe {
	probe := config.Probe{Path: registry.File(), CACerts: registry.CACerts()}
	for _, host := range registry.Hosts {
		probe.URLs = append(probe.URLs, host.URL)
	}
	return probe
}

// render returns the content of config.toml.
func (c *CRIConfig) render() cri.Config {
	var out cri.Config
	if c.CgroupDriver != nil {
		out.CgroupDriver = *c.CgroupDriver
	}

	if c.Containerd == nil {
		return out
	}

	out.SandboxImage = c.Containerd.SandboxImage
	for _, plugin := range c.Containerd.Plugins {
		out.Plugins = append(out.Plugins,
			cri.Plugin{Remove: plugin.removes(), Path: plugin.Path, Values: plugin.Values})
	}

	return out
}

// registries returns the registries of criConfig. A host is in each only once,
// as TOML cannot define a table twice; the first counts.
func (c *CRIConfig) registries() []cri.Registry {
	if c.Containerd == nil {
		return nil
	}

	var all []cri.Registry
	for _, registry := range c.Containerd.Registries {
		out := cri.Registry{Upstream: registry.Upstream}
		if registry.Server != nil {
			out.Server = *registry.Server
		}

		for _, host := range registry.Hosts {
			same := func(h cri.Host) bool { return h.URL == host.URL }
			if slices.ContainsFunc(out.Hosts, same) {
				continue
			}
			out.Hosts = append(out.Hosts, cri.Host{
				URL:          host.URL,
				Capabilities: host.Capabilities,
				CACerts:      host.CACerts,
				OverridePath: host.OverridePath != nil && *host.OverridePath,
			})
		}

		all = append(all, out)
	}

	return all
}
