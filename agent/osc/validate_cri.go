package osc

import (
	"errors"
	"math"
	"slices"

	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/agent/document"
)

const criPath, containerdPath = "spec.criConfig", "spec.criConfig.containerd"

// checkCRI reports the problems of criConfig, by itself and with env's
// containerd.
func checkCRI(report *document.Report, spec Spec, env Env) {
	config := spec.CRIConfig
	if config == nil {
		return
	}

	if config.Name != "containerd" {
		report.Add(criPath+".name", quoteOrEmpty(config.Name)+" is not supported",
			"write containerd")
	}

	driver := config.CgroupDriver
	if driver != nil && !slices.Contains([]string{"systemd", "cgroupfs"}, *driver) {
		report.Add(criPath+".cgroupDriver", quoteOrEmpty(*driver)+" is unknown",
			"write systemd or cgroupfs")
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
		report.Warn(containerdPath, "is only for the purpose reconcile",
			"leave it out, or write purpose: reconcile")
	}

	problem, hint := checkImage(containerd.SandboxImage)
	if problem != "" { // It is copied as it is.
		report.Warn(containerdPath+".sandboxImage", problem, hint)
	}

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
		report.Warn(at+".values", "there is nothing to remove from values",
			"leave values out, or write op: add")
	case !plugin.removes() && plugin.Values == nil:
		report.Warn(at+".values", "empty", "write what to add, {} for an empty table")
	}

	if len(plugin.Path) == 0 {
		report.Add(at+".path", "empty",
			"list the names of the tables below plugins, such as io.containerd.gc.v1.scheduler")
	}

	for i, name := range plugin.Path {
		if name == "" {
			report.Warn(item(at+".path", i), "empty", "write the name of a table")
		}
	}

	switch {
	case plugin.Values == nil:
	case !inTOML(plugin.Values):
		report.Add(at+".values",
			"holds null in a list or an infinite number, "+
				"which containerd's configuration cannot", "leave it out")
	case hasNull(plugin.Values):
		report.Warn(at+".values", "holds null, which removes what has the name",
			"write op: remove with its path")
	}
}

func (p Plugin) removes() bool { return p.Op != nil && *p.Op == "remove" }

// inTOML reports whether containerd's configuration can hold a JSON value;
// fields that are null do not count.
func inTOML(value any) bool {
	switch value := value.(type) {
	case float64:
		return !math.IsNaN(value) && !math.IsInf(value, 0)
	case []any:
		return !slices.ContainsFunc(value, func(item any) bool {
			return hasNull(item) || !inTOML(item)
		})
	case map[string]any:
		for _, field := range value {
			if !inTOML(field) {
				return false
			}
		}
	}
	return true
}

// hasNull reports whether value is null or has a field that is.
func hasNull(value any) bool {
	fields, ok := value.(map[string]any)
	if !ok {
		return value == nil
	}
	for _, field := range fields {
		if hasNull(field) {
			return true
		}
	}
	return false
}

// checkRender reports what does not fit the image's configuration.
func checkRender(report *document.Report, config *CRIConfig, env Env) {
	const hint = "remove it first, with op: remove, or write another path"
	replaced, err := cri.Replaced(config.render(), env.Containerd)
	for _, plugin := range replaced {
		report.Warn(item(containerdPath+".plugins", plugin.Index)+".path", plugin.Err.Error(), hint)
	}

	var misfit *cri.PluginError
	switch {
	case errors.As(err, &misfit):
		report.Add(item(containerdPath+".plugins", misfit.Index)+".path", misfit.Err.Error(), hint)
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
