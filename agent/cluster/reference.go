package cluster

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/nodeagent"
)

// ReadNodeAgent reads Gardener's files for its node agent: the newest
// config-<version>.yaml, machine-name and zone in dir, and the CA file that the
// configuration names. root is the node's root directory.
func ReadNodeAgent(root fs.FS, dir string) (Config, error) {
	dir = dir[1:]
	name, err := newest(root, dir)
	if err != nil {
		return Config{}, err
	}

	read, warnings, err := readConfiguration(root, name)
	if err != nil {
		return Config{}, err
	}

	system := read.Controllers.OperatingSystemConfig
	c := Config{
		Gardener:          true,
		Server:            read.APIServer.Server,
		SecretName:        system.SecretName,
		KubernetesVersion: system.KubernetesVersion,
		Tokens:            tokensOf(read),
		DataVolumeSize:    read.Bootstrap.KubeletDataVolumeSize,
	}

	for _, w := range warnings {
		c.Warnings = append(c.Warnings, w.Error())
	}

	c.CA, err = readAuthorities(root, dir, read.APIServer)
	if err != nil {
		return Config{}, err
	}

	c.Machine, err = line(root, path.Join(dir, "machine-name"))
	if err != nil {
		return Config{}, err
	}

	c.Zone, err = line(root, path.Join(dir, "zone"))
	if err != nil {
		return Config{}, err
	}

	c.dropBadLabels("/"+path.Join(dir, "zone"), "/"+name)
	return c, nil
}

// readConfiguration decodes the file name, which is relative to root.
func readConfiguration(root fs.FS, name string) (nodeagent.Configuration, document.Errors, error) {
	text, err := fs.ReadFile(root, name)
	if err != nil {
		err = fmt.Errorf("read the node agent's configuration: %w", err)
		return nodeagent.Configuration{}, nil, err
	}
	return nodeagent.Decode("/"+name, text)
}

// readAuthorities returns the certificate authorities of the API server as PEM.
func readAuthorities(root fs.FS, dir string, a nodeagent.APIServer) ([]byte, error) {
	if a.CABundle != "" {
		return base64.StdEncoding.DecodeString(a.CABundle)
	}
	name := cmp.Or(a.CAFile, path.Join("/", dir, "cluster-ca.crt"))
	text, err := fs.ReadFile(root, name[1:])
	if err != nil {
		return nil, fmt.Errorf("read the CA of the API server: %w", err)
	}
	return text, nil
}

func tokensOf(c nodeagent.Configuration) []Token {
	var all []Token
	for _, t := range c.Controllers.Token.SyncConfigs {
		all = append(all, Token{t.SecretName, t.Path})
	}
	return all
}

// dropBadLabels clears values that are not valid label values and warns about
// them. The API server would reject the other labels with them.
func (c *Config) dropBadLabels(zone, version string) {
	for _, l := range []struct {
		value    *string
		at, what string
	}{{&c.Zone, zone, "zone"}, {&c.KubernetesVersion, version, "Kubernetes version"}} {
		if len(validation.IsValidLabelValue(*l.value)) == 0 {
			continue
		}
		c.Warnings = append(c.Warnings,
			fmt.Sprintf("%s: the %s %.100q is not a valid label value: the Node gets none",
				l.at, l.what, *l.value))
		*l.value = ""
	}
}

const (
	configPrefix = "config-"
	configSuffix = ".yaml"
)

// newest returns the configuration of the newest version in dir. Each version
// of the reference that was ever on the node has left one, and reads only its
// own. File times do not help: the clock may have been wrong, and a restored
// file is younger than its successor.
func newest(root fs.FS, dir string) (string, error) {
	names, err := fs.Glob(root, path.Join(dir, configPrefix+"*"+configSuffix))
	if err != nil {
		return "", err
	}
	if len(names) == 0 {
		return "", fmt.Errorf(
			"find the node agent's configuration: /%s has no config-<version>.yaml: %w",
			dir, fs.ErrNotExist,
		)
	}
	return slices.MaxFunc(names, compareConfigurations), nil
}

// compareConfigurations orders file names by their versions (Semantic
// Versioning 2.0.0, section 11). A name without a version comes first, and
// names of equal precedence are in byte order.
func compareConfigurations(a, b string) int {
	first := versionIn(a)
	second := versionIn(b)
	switch {
	case first == nil && second != nil:
		return -1
	case first != nil && second == nil:
		return 1
	case first != nil && first.LessThan(second):
		return -1
	case first != nil && second.LessThan(first):
		return 1
	}
	return strings.Compare(a, b)
}

// versionIn returns the version in the name of a configuration, nil if it has
// none.
func versionIn(name string) *version.Version {
	text := strings.TrimSuffix(strings.TrimPrefix(path.Base(name), configPrefix), configSuffix)
	v, err := version.ParseSemantic(text)
	if err != nil {
		return nil
	}
	return v
}

// line returns the first line of a file, "" if the file is absent.
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
