package cluster

import (
	"fmt"
	"os"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/loam-os/loam/agent/durable"
)

// secretName has the Secret's name from the Node's label and, on a second line,
// the name that was configured at that time.
const secretName = "var/lib/gardener-node-agent/secret-name"

// loadSecretName returns the name of the Secret with the configuration: the
// last value of the Node's label, unless the configured name has changed since.
// Files of earlier versions have no second line.
func loadSecretName(root *os.Root, configured string) string {
	text, err := root.ReadFile(secretName)
	name, instead, _ := strings.Cut(strings.TrimSpace(string(text)), "\n")
	if err != nil || len(validation.IsDNS1123Subdomain(name)) > 0 ||
		(instead != "" && instead != configured) {
		return configured
	}
	return name
}

// saveSecretName writes the name of the Node's label.
func saveSecretName(dir *durable.Dir, name, configured string) error {
	if wrong := validation.IsDNS1123Subdomain(name); len(wrong) > 0 {
		return fmt.Errorf("%.100q is not the name of a Secret: %s", name, wrong[0])
	}

	if err := dir.MkdirAll(path.Dir(secretName)); err != nil {
		return err
	}

	_, err := dir.WriteFile(secretName, []byte(name+"\n"+configured+"\n"), 0o600)
	return err
}
