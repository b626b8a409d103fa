package osc

import (
	"path"

	"github.com/loam-os/loam/agent/config"
)

// authoritiesDir is where Gardener puts the certificates of authorities that a
// machine is to trust (pkg/component/extensions/operatingsystemconfig,
// component root-certificates). A unit of the same document adds them to the
// machine's.
const authoritiesDir = "/var/lib/ca-certificates-local"

// Authorities are the certificates that the document has the machine trust: a
// registry may have one of them, and an image that the document refers to is
// pulled before any of its files is in place. It takes a document in which
// Validate finds no errors.
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
