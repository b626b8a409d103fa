package osc

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/agent/document"
)

// Env is everything besides the document that the result depends on.
type Env struct {
	// Hostname is the host name of the node; files for other hosts are left
	// out. If empty, as when a document is checked away from a node, only files
	// for every host remain.
	Hostname string

	// Contents has the content of each reference in References. Nil skips the
	// check for missing content, as when a document is checked away from a
	// node. Merge needs all of it.
	Contents map[Reference]config.Content

	// Containerd is the image's configuration, which criConfig changes.
	Containerd cri.Base
}

// Validate returns everything that is wrong with osc, as document.Errors in the
// order of the document. An error is something that a node cannot or must not
// do: a document with an error is never applied. Everything else is a warning.
// gardener-node-agent checks nothing, so a node must accept what Gardener's
// validation (its package pkg/api/extensions/validation) accepts.
func Validate(osc OperatingSystemConfig, env Env) error {
	report := document.NewReport(osc.origin)
	report.Header(osc.APIVersion, osc.Kind, APIVersion, Kind)

	if !slices.Contains([]Purpose{"", "provision", "reconcile"}, osc.Spec.Purpose) {
		report.Warn("spec.purpose", document.Quote(string(osc.Spec.Purpose))+" is unknown",
			"write provision or reconcile")
	}

	files := osc.files()
	units := osc.units()
	all := documentUnits{instances: instancesOf(files, units), refused: osc.refused()}

	paths := map[string]bool{}
	for _, file := range files {
		checkFile(report, file, all)
		checkTransmit(report, file, osc.Spec.Purpose)
		paths[file.value.Path] = true
	}

	checkUnits(report, units, paths, all)
	checkTwice(report, units)
	checkPlaces(report, files, units, osc.Spec.CRIConfig.written())
	checkCRI(report, osc.Spec, env)
	checkUpdates(report, osc)
	checkKubelet(report, files, osc.Spec.InPlaceUpdates != nil)

	if env.Contents != nil {
		checkContents(report, files, env)
	}

	return report.Err()
}

// checkUnits checks each unit, and those with nothing wrong in them as a whole:
// what a unit lacks may be on a line that was reported.
func checkUnits(
	report *document.Report, units []located[Unit], files map[string]bool, all documentUnits,
) {
	wrong := map[string]bool{}
	for _, unit := range units {
		before := report.Len()
		checkUnit(report, unit, files, all)
		if report.Len() > before {
			wrong[unit.value.Name] = true
		}
	}

	same := byName(units)
	for _, name := range slices.Sorted(maps.Keys(same)) {
		if !wrong[name] {
			checkLoads(report, name, same[name])
		}
	}
}

// located is a value of the document and its path.
type located[T any] struct {
	at    string
	value T
}

// files returns the files of Spec, then those of Status.
func (o OperatingSystemConfig) files() []located[File] {
	return append(locate("spec.files", o.Spec.Files),
		locate("status.extensionFiles", o.Status.ExtensionFiles)...)
}

// units returns the units of Spec, then those of Status.
func (o OperatingSystemConfig) units() []located[Unit] {
	return append(locate("spec.units", o.Spec.Units),
		locate("status.extensionUnits", o.Status.ExtensionUnits)...)
}

func locate[T any](list string, values []T) []located[T] {
	out := make([]located[T], len(values))
	for i, value := range values {
		out[i] = located[T]{at: item(list, i), value: value}
	}
	return out
}

func item(list string, i int) string { return list + "[" + strconv.Itoa(i) + "]" }

// isFor reports whether the file is for the node of env.
func (f File) isFor(env Env) bool {
	return f.HostName == nil || (env.Hostname != "" && *f.HostName == strings.ToLower(env.Hostname))
}
