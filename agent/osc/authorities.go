package osc

import (
	"path"

	"github.com/loam-os/loam/agent/config"
)

// authoritiesDir is where Gardener writes the CA certificates that a machine
// should trust (pkg/component/extensions/operatingsystemconfig, component
// root-certificates). A unit of the same document adds them to the machine's
// trust store.
const authoritiesDir = "/var/lib/ca-certificates-local"

// Authorities returns the CA certificates that the document makes the machine
// trust. An image that the document refers to is pulled before any of its files
// is in place, and its registry may need one of them. The document must have
// passed Validate.
func Authorities(osc OperatingSystemConfig, env Env) ([]config.File, error) {
	var files []config.File
	for _, file := range osc.files() {
		_, refers := file.value.Content.reference()
		name := file.value.Path
		if refers || path.Dir(name) != authoritiesDir || path.Ext(name) != ".crt" ||
			!file.value.isFor(env) || file.value.isLeftOut() {
			continue
		}

		desired, err := file.value.desired(env)
		if err != nil {
			return nil, err
		}

		files = append(files, desired)
	}

	return files, nil
}
