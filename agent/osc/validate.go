package osc

import (
	"fmt"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/agent/document"
)

// Env is what the outcome depends on besides the document.
type Env struct {
	// Hostname is the node's; files for other hosts are left out. With ""
	// only files for every host remain, as for a check away from a node.
	Hostname string

	// Contents are what References names. Nil does not ask for them, as for a
	// check away from a node; Merge does.
	Contents map[Reference]config.Content

	// Containerd is the image's, which criConfig changes.
	Containerd cri.Base
}

// Validate reports everything wrong with osc, as document.Errors in the order
// of the document. An error is what a node cannot carry out or must not: no
// document with one is applied. Anything else is a warning, as
// gardener-node-agent checks nothing: what Gardener lets through (its package
// pkg/api/extensions/validation) a node has to take.
func Validate(osc OperatingSystemConfig, env Env) error {
	report := document.NewReport(osc.origin)
	report.Header(osc.APIVersion, osc.Kind, APIVersion, Kind)

	if !slices.Contains([]Purpose{"", "provision", "reconcile"}, osc.Spec.Purpose) {
		report.Warn("spec.purpose", document.Quote(string(osc.Spec.Purpose))+" is unknown",
			"write provision or reconcile")
	}

	files := osc.files()
	units := osc.units()

	paths := map[string]bool{}
	for _, file := range files {
		checkFile(report, file)
		checkTransmit(report, file, osc.Spec.Purpose)
		paths[file.value.Path] = true
	}

	for _, unit := range units {
		checkUnit(report, unit, paths)
	}

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

// located is a value of the document and its path there.
type located[T any] struct {
	at    string
	value T
}

// files are the files of Spec, then those of Status.
func (o OperatingSystemConfig) files() []located[File] {
	return append(locate("spec.files", o.Spec.Files),
		locate("status.extensionFiles", o.Status.ExtensionFiles)...)
}

// units are the units of Spec, then those of Status.
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

func item(list string, i int) string { return fmt.Sprintf("%s[%d]", list, i) }

// isFor reports whether the file is for the node of that name.
func (f File) isFor(env Env) bool {
	return f.HostName == nil || env.Hostname != "" && *f.HostName == strings.ToLower(env.Hostname)
}
