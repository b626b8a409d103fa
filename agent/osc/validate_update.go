package osc

import (
	"regexp"

	"github.com/loam-os/loam/agent/document"
)

// version is a release of Kubernetes (Semantic Versioning 2.0.0), minor the
// part of it that decides on an update in place.
var (
	version = regexp.MustCompile(
		`^v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)([-+][-+.0-9A-Za-z]+)?$`,
	)
	minor = regexp.MustCompile(`^v?[0-9]+\.[0-9]+([-+.]|$)`)
)

func checkUpdates(report *document.Report, osc OperatingSystemConfig) {
	if update := osc.Spec.InPlaceUpdates; update != nil {
		at := "spec.inPlaceUpdates"
		if update.OperatingSystemVersion == "" {
			report.Warn(at+".operatingSystemVersion", "empty",
				"write the version of the image, IMAGE_VERSION of its os-release")
		}

		switch {
		case update.Kubelet == "":
			report.Warn(at+".kubelet", "empty", "write the version of kubelet, such as 1.35.0")
		case !minor.MatchString(update.Kubelet):
			report.Add(at+".kubelet", document.Quote(update.Kubelet)+" is not a version",
				"write three numbers, such as 1.35.0")
		case !version.MatchString(update.Kubelet):
			report.Warn(at+".kubelet", document.Quote(update.Kubelet)+" is not a version",
				"write three numbers, such as 1.35.0")
		}
	}

	status := osc.Status.InPlaceUpdates
	if status != nil && status.OSUpdate != nil && status.OSUpdate.Command == "" {
		report.Warn("status.inPlaceUpdates.osUpdate.command", "empty",
			"write the command, or leave osUpdate out")
	}
}
