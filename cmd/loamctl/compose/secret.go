package compose

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// secretKey is the key of the configuration in its Secret.
const secretKey = "osc.yaml"

// inSecret returns the configuration in the text of a Secret, as `kubectl get
// secret -o yaml` prints one, and a name for it. Any other text, and its name,
// stay as they are.
func inSecret(name string, text []byte) (string, []byte, error) {
	var secret struct {
		Kind       string            `json:"kind"`
		Data       map[string][]byte `json:"data"`
		StringData map[string]string `json:"stringData"`
	}
	// What is no Secret is for the strict decoder to judge.
	if err := yaml.Unmarshal(text, &secret); err != nil || secret.Kind != "Secret" {
		return name, text, nil
	}

	// The API server has stringData replace data.
	keys := map[string][]byte{}
	maps.Copy(keys, secret.Data)
	for key, value := range secret.StringData {
		keys[key] = []byte(value)
	}

	content, ok := keys[secretKey]
	if !ok {
		has := "no data"
		if len(keys) > 0 {
			has = strings.Join(slices.Sorted(maps.Keys(keys)), ", ")
		}
		return name, nil, hint.With(
			fault.With(fmt.Errorf("%s: a Secret without the key %s", name, secretKey),
				fault.DocumentInvalid),
			"the Secret of a node has its configuration there; this one has %s", has,
		)
	}
	return name + "[" + secretKey + "]", content, nil
}
