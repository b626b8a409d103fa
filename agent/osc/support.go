package osc

import (
	"slices"

	"github.com/loam-os/loam/agent/document"
)

// providedUnits and providedFiles are Gardener's own node agent. Loam is the
// node agent of its nodes, so they are accepted and left out.
var (
	providedUnits = []string{"gardener-node-agent.service", "gardener-node-init.service"}
	providedFiles = []string{"/opt/bin/gardener-node-agent"}
)

func (u Unit) provided() bool { return slices.Contains(providedUnits, u.Name) }

func (f File) provided() bool { return slices.Contains(providedFiles, f.Path) }

// checkSupport reports the fields that are right but that this version does not
// carry out.
func checkSupport(report *document.Report, osc OperatingSystemConfig, env Env) {
	unsupported := func(at, hint string) {
		report.Add(at, "not supported by this version", hint)
	}
	if osc.Spec.CRIConfig != nil {
		unsupported("spec.criConfig", "give containerd's configuration as files")
	}
	if osc.Spec.InPlaceUpdates != nil {
		unsupported("spec.inPlaceUpdates", "update the image of the node")
	}
	if osc.Status.InPlaceUpdates != nil {
		unsupported("status.inPlaceUpdates", "update the image of the node")
	}
	for _, file := range osc.files() {
		if file.value.provided() || !file.value.isFor(env) {
			continue
		}
		if file.value.Content.SecretRef != nil {
			unsupported(file.at+".content.secretRef", "give the content inline")
		}
		if file.value.Content.ImageRef != nil {
			unsupported(file.at+".content.imageRef", "give the content inline")
		}
	}
}
