package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// nodeAgentConfiguration is what of that kind (nodeagent.config.gardener.cloud,
// v1alpha1) bears on Loam. The reference ignores fields that it does not know, and
// so must who reads its files.
type nodeAgentConfiguration struct {
	Kind      string `json:"kind"`
	APIServer struct {
		Server   string `json:"server"`
		CABundle []byte `json:"caBundle"`
		CAFile   string `json:"caFile"`
	} `json:"apiServer"`
	Bootstrap struct {
		KubeletDataVolumeSize int64 `json:"kubeletDataVolumeSize"`
	} `json:"bootstrap"`
	Controllers struct {
		OperatingSystemConfig struct {
			SecretName        string `json:"secretName"`
			KubernetesVersion string `json:"kubernetesVersion"`
		} `json:"operatingSystemConfig"`
		Token struct {
			SyncConfigs []struct {
				SecretName string `json:"secretName"`
				Path       string `json:"path"`
			} `json:"syncConfigs"`
		} `json:"token"`
	} `json:"controllers"`
}

// ReadNodeAgent reads what Gardener gives a node for its own agent: in dir, the
// newest config-<version>.yaml, machine-name and zone, and the CA where that says.
// root is the node's root directory.
func ReadNodeAgent(root fs.FS, dir string) (Config, error) {
	dir = dir[1:]
	name, err := newest(root, dir)
	if err != nil {
		return Config{}, err
	}
	text, err := fs.ReadFile(root, name)
	if err != nil {
		return Config{}, fmt.Errorf("read the node agent's configuration: %w", err)
	}
	read, err := decodeNodeAgent(text)
	if err != nil {
		return Config{}, fmt.Errorf("read /%s: %w", name, err)
	}
	o := read.Controllers.OperatingSystemConfig
	switch {
	case read.Kind != "NodeAgentConfiguration":
		return Config{}, fmt.Errorf("/%s: kind: %q is no NodeAgentConfiguration", name, read.Kind)
	case read.APIServer.Server == "":
		return Config{}, fmt.Errorf("/%s: apiServer.server: empty", name)
	case o.SecretName == "":
		return Config{}, fmt.Errorf("/%s: controllers.operatingSystemConfig.secretName: empty", name)
	}
	c := Config{Server: read.APIServer.Server, CA: read.APIServer.CABundle, SecretName: o.SecretName, KubernetesVersion: o.KubernetesVersion, DataVolumeSize: read.Bootstrap.KubeletDataVolumeSize}
	if len(c.CA) == 0 {
		file := read.APIServer.CAFile
		if file == "" {
			file = path.Join("/", dir, "cluster-ca.crt")
		}
		if c.CA, err = fs.ReadFile(root, file[1:]); err != nil {
			return Config{}, fmt.Errorf("read the CA of the API server: %w", err)
		}
	}
	c.Tokens = read.tokens()
	if c.Machine, err = line(root, path.Join(dir, "machine-name")); err != nil {
		return Config{}, err
	}
	if c.Zone, err = line(root, path.Join(dir, "zone")); err != nil {
		return Config{}, err
	}
	c.dropBadLabels("/"+path.Join(dir, "zone"), "/"+name)
	return c, nil
}

func decodeNodeAgent(text []byte) (read nodeAgentConfiguration, err error) {
	return read, yaml.Unmarshal(text, &read)
}

func (n nodeAgentConfiguration) tokens() []Token {
	var all []Token
	for _, t := range n.Controllers.Token.SyncConfigs {
		all = append(all, Token{t.SecretName, t.Path})
	}
	return all
}

// dropBadLabels leaves out what no label of the Node can say, read from there: the
// API server would refuse all else that is said with it.
func (c *Config) dropBadLabels(zone, version string) {
	for _, l := range []struct {
		value    *string
		at, what string
	}{{&c.Zone, zone, "zone"}, {&c.KubernetesVersion, version, "Kubernetes version"}} {
		if len(validation.IsValidLabelValue(*l.value)) == 0 {
			continue
		}
		c.Warnings = append(c.Warnings, fmt.Sprintf("%s: the %s %.100q is no value of a label: the Node goes without", l.at, l.what, *l.value))
		*l.value = ""
	}
}

// newest is the configuration that was written last: there is one for each
// version of the reference that was ever on the node.
func newest(root fs.FS, dir string) (string, error) {
	names, err := fs.Glob(root, path.Join(dir, "config-*.yaml"))
	if err != nil {
		return "", err
	}
	last := ""
	var at fs.FileInfo
	for _, name := range names {
		info, err := fs.Stat(root, name)
		if err != nil {
			return "", fmt.Errorf("find the node agent's configuration: %w", err)
		}
		if at == nil || info.ModTime().After(at.ModTime()) {
			last, at = name, info
		}
	}
	if last == "" {
		return "", fmt.Errorf("find the node agent's configuration: /%s has no config-<version>.yaml: %w", dir, fs.ErrNotExist)
	}
	return last, nil
}

// line is the first line of a file, "" if there is none.
func line(root fs.FS, name string) (string, error) {
	text, err := fs.ReadFile(root, name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the node agent's configuration: %w", err)
	}
	first, _, _ := bytes.Cut(text, []byte("\n"))
	return string(bytes.TrimSpace(first)), nil
}
