package shoot

import (
	"encoding/base64"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

// Environment is what documents name outside of a test's nodes: a control plane
// and a registry of the test instead of the ones in the documents.
type Environment struct {
	// Server is the URL of the API server as nodes reach it, and CA the
	// certificate of the authority of all its certificates, PEM.
	Server string
	CA     string

	// Registry is the URL of the registry that has all images, under the
	// repositories that the documents name. Empty leaves them where they are.
	Registry string
	// RegistryCA is the certificate of the authority that documents trust for the
	// landscape's own registry, PEM. Empty leaves it as it is.
	RegistryCA string
}

// upstreams are the registries of the images that Gardener names.
var upstreams = []string{"europe-docker.pkg.dev", "registry.k8s.io"}

// Original returns the osc.yaml of a reconcile document with the environment's
// addresses and authority in place of the landscape's; all else is as Gardener
// rendered it.
func (e Environment) Original(d Document) ([]byte, error) {
	return e.replace(d.OSC)
}

// Init returns a provision document, as [Environment.Original] does.
func (e Environment) Init(d Document) ([]byte, error) {
	return e.replace(d.Object)
}

// authorities are the files of documents that are the environment's authority.
var authorities = map[string]bool{
	"/var/lib/gardener-node-agent/cluster-ca.crt": true,
	"/var/lib/kubelet/ca.crt":                     true,
}

// registryAuthorities are where Gardener writes the authority of the landscape's
// registry, for each kind of operating system.
var registryAuthorities = map[string]bool{
	"/var/lib/ca-certificates-local/registry-ca.crt": true,
	"/etc/pki/trust/anchors/registry-ca.pem":         true,
}

func (e Environment) replace(text []byte) ([]byte, error) {
	var osc map[string]any
	err := yaml.Unmarshal(text, &osc)
	if err != nil {
		return nil, err
	}

	spec := osc["spec"].(map[string]any)

	for _, f := range spec["files"].([]any) {
		file := f.(map[string]any)
		path := file["path"].(string)

		inline, ok := file["content"].(map[string]any)["inline"].(map[string]any)
		if !ok {
			continue
		}

		switch {
		case authorities[path]:
			set(inline, e.CA)
		case registryAuthorities[path] && e.RegistryCA != "":
			set(inline, e.RegistryCA)
		case strings.HasPrefix(path, "/var/lib/gardener-node-agent/config-"):
			config, err := e.config(inline)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", path, err)
			}
			set(inline, config)
		}
	}

	if e.Registry != "" {
		e.mirror(spec)
	}

	return yaml.Marshal(osc)
}

// config returns the node agent's configuration with the environment's API
// server.
func (e Environment) config(inline map[string]any) (string, error) {
	text, err := base64.StdEncoding.DecodeString(inline["data"].(string))
	if err != nil {
		return "", err
	}

	var config map[string]any
	err = yaml.Unmarshal(text, &config)
	if err != nil {
		return "", err
	}

	config["apiServer"].(map[string]any)["server"] = e.Server

	text, err = yaml.Marshal(config)
	return string(text), err
}

// mirror adds the environment's registry as the mirror of the registries in the
// documents, as the extensions for registries do.
func (e Environment) mirror(spec map[string]any) {
	containerd, ok := spec["criConfig"].(map[string]any)["containerd"].(map[string]any)
	if !ok {
		return // A machine's first document has no settings of containerd.
	}

	var registries []any
	for _, upstream := range upstreams {
		registries = append(registries, map[string]any{
			"upstream": upstream,
			"hosts": []any{map[string]any{
				"url":          e.Registry,
				"capabilities": []any{"pull", "resolve"},
			}},
		})
	}

	containerd["registries"] = registries
}

func set(inline map[string]any, text string) {
	inline["encoding"] = "b64"
	inline["data"] = base64.StdEncoding.EncodeToString([]byte(text))
}
