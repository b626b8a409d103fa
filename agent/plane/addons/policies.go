package addons

import (
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/loam-os/loam/examples/cluster"
)

// policies is the add-on of the admission policies. Each cluster has it, so it is
// not among the add-ons of a record.
const policies = "policies"

// Policies returns the admission policies for what nodes may change: those of
// examples/cluster/admission.yaml, which other clusters create by hand.
func Policies() ([]Object, error) {
	var all []Object
	for text := range strings.SplitSeq(cluster.Admission, "\n---\n") {
		var head struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     map[string]any
		}
		if err := yaml.Unmarshal([]byte(text), &head); err != nil {
			return nil, fmt.Errorf("read the admission policies: %w", err)
		}

		k := policy
		if head.Kind == policyBinding.Name {
			k = policyBinding
		}
		all = append(all, object(policies, k, head.Metadata.Name, fields{"spec": head.Spec}))
	}
	return all, nil
}
