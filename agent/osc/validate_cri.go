package osc

import (
	"errors"
	"math"
	"slices"

	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/agent/document"
)

const criPath, containerdPath = "spec.criConfig", "spec.criConfig.containerd"

// checkCRI reports what is wrong with criConfig, alone and on env's containerd.
func checkCRI(report *document.Report, spec Spec, env Env) {
	config := spec.CRIConfig
	if config == nil {
		return
	}
	if config.Name != "containerd" {
		report.Add(criPath+".name", quoteOrEmpty(config.Name)+" is not supported", "write containerd")
	}
	if driver := config.CgroupDriver; driver != nil && !slices.Contains([]string{"systemd", "cgroupfs"}, *driver) {
		report.Add(criPath+".cgroupDriver", quoteOrEmpty(*driver)+" is unknown", "write systemd or cgroupfs")
	}
	if config.Containerd != nil {
		checkContainerd(report, *config.Containerd, spec.Purpose)
	}
	if config.writesFiles() {
		checkRender(report, config, env)
	}
}

func checkContainerd(report *document.Report, containerd Containerd, purpose Purpose) {
	if purpose == "provision" {
		report.Add(containerdPath, "is only for the purpose reconcile", "leave it out, or write purpose: reconcile")
	}
	checkImage(report, containerdPath+".sandboxImage", containerd.SandboxImage)
	checkRegistries(report, containerd.Registries)
	for i, plugin := range containerd.Plugins {
		checkPlugin(report, item(containerdPath+".plugins", i), plugin)
	}
}

func checkPlugin(report *document.Report, at string, plugin Plugin) {
	switch {
	case plugin.Op != nil && *plugin.Op != "add" && *plugin.Op != "remove":
		report.Add(at+".op", quoteOrEmpty(*plugin.Op)+" is unknown", "write add or remove")
	case plugin.removes() && plugin.Values != nil:
		report.Add(at+".values", "there is nothing to remove from values", "leave values out, or write op: add")
	case !plugin.removes() && plugin.Values == nil:
		report.Add(at+".values", "empty", "write what to add, {} for an empty table")
	}
	if len(plugin.Path) == 0 {
		report.Add(at+".path", "empty", "list the names of the tables below plugins, such as io.containerd.gc.v1.scheduler")
	}
	for i, name := range plugin.Path {
		if name == "" {
			report.Add(item(at+".path", i), "empty", "write the name of a table")
		}
	}
	if plugin.Values != nil && !inTOML(plugin.Values) {
		report.Add(at+".values", "holds null or a number without end, which containerd's configuration cannot", "leave it out")
	}
}

func (p Plugin) removes() bool { return p.Op != nil && *p.Op == "remove" }

// inTOML reports whether containerd's configuration can hold a value of JSON.
func inTOML(value any) bool {
	switch value := value.(type) {
	case nil:
		return false
	case float64:
		return !math.IsNaN(value) && !math.IsInf(value, 0)
	case []any:
		return !slices.ContainsFunc(value, func(item any) bool { return !inTOML(item) })
	case map[string]any:
		for _, field := range value {
			if !inTOML(field) {
				return false
			}
		}
	}
	return true
}

// checkRender reports what does not fit the image's configuration.
func checkRender(report *document.Report, config *CRIConfig, env Env) {
	var misfit *cri.PluginError
	_, err := cri.Render(config.render(), env.Containerd)
	switch {
	case errors.As(err, &misfit):
		report.Add(item(containerdPath+".plugins", misfit.Index)+".path", misfit.Err.Error(),
			"remove it first, with op: remove, or write another path")
	case err != nil:
		report.Add(criPath, err.Error(), "the image is at fault, not this document")
	}
}

func quoteOrEmpty(text string) string {
	if text == "" {
		return "an empty value"
	}
	return document.Quote(text)
}
