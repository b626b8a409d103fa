package osc

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/inplace"
)

// kubeletConfig are the fields of a KubeletConfiguration that hold quantities
// (Kubernetes API reference, kubelet.config.k8s.io/v1beta1).
type kubeletConfig struct {
	KubeReserved   map[string]string `json:"kubeReserved"`
	SystemReserved map[string]string `json:"systemReserved"`

	EvictionHard           map[string]string `json:"evictionHard"`
	EvictionSoft           map[string]string `json:"evictionSoft"`
	EvictionMinimumReclaim map[string]string `json:"evictionMinimumReclaim"`
}

// checkKubelet reports invalid quantities in the kubelet's configuration, if
// its text is in the document. The kubelet does not start with them, which is a
// warning here. In a document with updates in place an invalid kubeReserved is
// an error, as for gardener-node-agent, which decides by it whether to drain
// the node.
func checkKubelet(report *document.Report, files []located[File], inPlace bool) {
	for _, file := range files {
		content := file.value.Content.Inline
		if file.value.Path != inplace.KubeletConfig || content == nil {
			continue
		}

		text, err := content.decode()
		if err != nil {
			continue // Reported already.
		}

		at := file.at + ".content.inline.data"
		for _, e := range kubeletErrors(text, inPlace) {
			field := e.Path
			if field == document.Whole {
				field = "configuration"
			}
			problem := "the kubelet's " + field + ": " + e.Problem
			if e.Warning {
				report.WarnLine(at, e.Line, problem, e.Hint)
			} else {
				report.AddLine(at, e.Line, problem, e.Hint)
			}
		}
	}
}

// kubeletErrors returns the invalid quantities in text, with their lines.
func kubeletErrors(text []byte, inPlace bool) document.Errors {
	var config kubeletConfig
	origin, err := document.DecodeWithOrigin("", text, &config)
	warnings, refusal := document.Lenient(err) // Its other fields are unknown here.
	wrong, _ := refusal.(document.Errors)
	for _, warning := range warnings {
		// The decoder of the kubelet takes no number for text.
		if strings.HasSuffix(warning.Problem, ", want a string") {
			wrong = append(wrong, warning)
		}
	}

	report := document.NewReport(origin)
	reserved := report.Warn

	if inPlace {
		reserved = report.Add
	}

	checkQuantities(reserved, "kubeReserved", config.KubeReserved)
	checkQuantities(report.Warn, "systemReserved", config.SystemReserved)
	checkThresholds(report, "evictionHard", config.EvictionHard)
	checkThresholds(report, "evictionSoft", config.EvictionSoft)
	checkThresholds(report, "evictionMinimumReclaim", config.EvictionMinimumReclaim)
	more, _ := report.Err().(document.Errors)
	more = more.Except(wrong)

	for i := range wrong {
		wrong[i].Warning = !inPlace
	}

	return append(wrong, more...)
}

// checkQuantities reports the values of field that are not quantities.
func checkQuantities(add func(path, problem, hint string), field string, values map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if _, err := resource.ParseQuantity(values[name]); err != nil {
			add(document.Join(field, name), quoteOrEmpty(values[name])+" is not a quantity",
				"write a number and a unit, such as 80m or 1Gi")
		}
	}
}

// checkThresholds is checkQuantities for a field that accepts percentages too.
func checkThresholds(report *document.Report, field string, values map[string]string) {
	quantities := maps.Clone(values)
	maps.DeleteFunc(quantities, func(_, value string) bool {
		number, percent := strings.CutSuffix(value, "%")
		return percent && number != "" && strings.Trim(number, "0123456789.") == ""
	})
	checkQuantities(report.Warn, field, quantities)
}
