package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/gardener/gardener/pkg/api/extensions/v1alpha1/helper"
	nodeagentconfigv1alpha1 "github.com/gardener/gardener/pkg/apis/config/nodeagent/v1alpha1"
	extensionsv1alpha1 "github.com/gardener/gardener/pkg/apis/extensions/v1alpha1"
	"go.yaml.in/yaml/v3"
	k8syaml "sigs.k8s.io/yaml"

	"github.com/loam-os/loam/agent/machine"
)

// maxUserData is what providers take as user data of a machine
// (pkg/component/extensions/operatingsystemconfig/nodeinit of Gardener).
const maxUserData = 16 * 1024

// initScript is a file of the reference's first start: it fetches its node
// agent. Loam is the node agent.
const initScript = nodeagentconfigv1alpha1.BaseDir + "/init.sh"

// required are the files without which a machine cannot join.
var required = []string{
	nodeagentconfigv1alpha1.BaseDir + "/config-*.yaml",
	nodeagentconfigv1alpha1.ClusterCAFilePath,
	nodeagentconfigv1alpha1.MachineNameFilePath,
	nodeagentconfigv1alpha1.BootstrapTokenFilePath,
}

// userData returns the user data for an OperatingSystemConfig of purpose
// provision: a machine.yaml of Loam with the files of Gardener's node agent. It
// begins with what spec.providerConfig has, which is a machine.yaml, too: where
// systems for updates come from, for example. The placeholders in it are for
// Gardener's machine-controller-manager.
func userData(osc *extensionsv1alpha1.OperatingSystemConfig) ([]byte, error) {
	if osc.Spec.Purpose != extensionsv1alpha1.OperatingSystemConfigPurposeProvision {
		return nil, fmt.Errorf("spec.purpose: %q has no user data: want provision",
			osc.Spec.Purpose)
	}
	doc, err := providerConfig(osc)
	if err != nil {
		return nil, err
	}
	files, err := filesOf(osc)
	if err != nil {
		return nil, err
	}
	add(doc, "source", mapping("nodeAgent", mapping()))
	add(doc, "files", files)

	out := bytes.NewBufferString("#loam\n")
	for _, name := range leftOut(osc) {
		fmt.Fprintf(out, "# left out: %q\n", name)
	}
	encoder := yaml.NewEncoder(out)
	encoder.SetIndent(2)
	if err := encoder.Encode(doc); err != nil {
		return nil, fmt.Errorf("write the user data: %w", err)
	}
	return out.Bytes(), check(out.Bytes())
}

// longest are the longest values that the placeholders can get.
var longest = strings.NewReplacer(
	"<<BOOTSTRAP_TOKEN>>", "abcdef.0123456789abcdef",
	"<<MACHINE_NAME>>", strings.Repeat("m", 63),
)

// check reports what would keep a machine from taking the user data: its size,
// or what Loam's own reader finds once the placeholders have been replaced.
func check(text []byte) error {
	replaced := []byte(longest.Replace(string(text)))
	if len(replaced) > maxUserData {
		return fmt.Errorf(
			"the user data has %d bytes, more than the %d that providers take; "+
				"hint: shorten spec.providerConfig, or the bundle of certificate authorities",
			len(replaced),
			maxUserData,
		)
	}
	_, err := machine.Decode("user data", replaced)
	return err
}

// providerConfig returns spec.providerConfig as the beginning of a
// machine.yaml.
func providerConfig(osc *extensionsv1alpha1.OperatingSystemConfig) (*yaml.Node, error) {
	if osc.Spec.ProviderConfig == nil || len(osc.Spec.ProviderConfig.Raw) == 0 {
		return mapping("apiVersion", scalar(machine.APIVersion), "kind", scalar(machine.Kind)), nil
	}
	const at = "spec.providerConfig"
	raw := osc.Spec.ProviderConfig.Raw
	m, err := machine.Decode(at, raw)
	if err != nil {
		return nil, err
	}

	for _, own := range []struct {
		field string
		set   bool
	}{
		{"hostname", m.Hostname != ""},
		{"source", m.Source != machine.Source{}},
		{"files", len(m.Files) > 0},
	} {
		if own.set {
			return nil, fmt.Errorf(
				"%s.%s: Gardener says that for each machine; hint: leave it out",
				at,
				own.field,
			)
		}
	}

	var doc yaml.Node
	if err := yaml.Unmarshal(raw, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	plain(&doc)
	return doc.Content[0], nil
}

// plain takes the style of JSON from n.
func plain(n *yaml.Node) {
	n.Style = 0
	for _, child := range n.Content {
		plain(child)
	}
}

// filesOf returns the files for a machine.yaml, in the order of osc.
func filesOf(osc *extensionsv1alpha1.OperatingSystemConfig) (*yaml.Node, error) {
	list := &yaml.Node{Kind: yaml.SequenceNode}
	var errs []error
	for i, f := range osc.Spec.Files {
		if !isForNodeAgent(f) {
			continue
		}
		file, err := fileOf(f)
		if err != nil {
			errs = append(errs, fmt.Errorf("spec.files[%d], %s: %w", i, f.Path, err))
			continue
		}
		list.Content = append(list.Content, file)
	}

	for _, pattern := range required {
		if !has(osc, pattern) {
			errs = append(
				errs,
				fmt.Errorf("spec.files: no %s, without which a machine cannot join its cluster",
					pattern),
			)
		}
	}
	return list, errors.Join(errs...)
}

// fileOf returns f as it is in a machine.yaml. Text stays text, so that the
// placeholders are found, and in quotes, so that a token of digits is no
// number.
func fileOf(f extensionsv1alpha1.File) (*yaml.Node, error) {
	if f.Content.Inline == nil {
		return nil, errors.New("has no inline content, and a new machine can fetch none")
	}
	data, err := helper.Decode(f.Content.Inline.Encoding, []byte(f.Content.Inline.Data))
	if err != nil {
		return nil, fmt.Errorf("decode the content: %w", err)
	}

	file := mapping("path", scalar(f.Path))
	if f.Permissions != nil {
		add(file, "mode", &yaml.Node{
			Kind:  yaml.ScalarNode,
			Tag:   "!!int",
			Value: fmt.Sprintf("0%o", *f.Permissions),
		})
	}
	if isText(data) {
		add(file, "content", quoted(string(data)))
	} else {
		add(file, "base64", scalar(base64.StdEncoding.EncodeToString(data)))
	}
	return file, nil
}

// isText reports whether data can be in a YAML document as it is.
func isText(data []byte) bool {
	control := func(r rune) bool { return (r < ' ' && r != '\n' && r != '\t') || r == 0x7f }
	return utf8.Valid(data) && !bytes.ContainsFunc(data, control)
}

// isForNodeAgent reports whether Loam reads the file when it joins a cluster.
func isForNodeAgent(f extensionsv1alpha1.File) bool {
	return strings.HasPrefix(f.Path, nodeagentconfigv1alpha1.BaseDir+"/") && f.Path != initScript
}

// has reports whether osc has a file whose path matches the pattern.
func has(osc *extensionsv1alpha1.OperatingSystemConfig, pattern string) bool {
	for _, f := range osc.Spec.Files {
		if ok, _ := path.Match(pattern, f.Path); ok {
			return true
		}
	}
	return false
}

// leftOut returns the names of units and files of osc that the user data does
// not have, except for the ones of the reference's own first start.
func leftOut(osc *extensionsv1alpha1.OperatingSystemConfig) []string {
	var names []string
	for _, u := range osc.Spec.Units {
		if u.Name != nodeagentconfigv1alpha1.InitUnitName {
			names = append(names, u.Name)
		}
	}
	for _, f := range osc.Spec.Files {
		if !isForNodeAgent(f) && f.Path != initScript {
			names = append(names, f.Path)
		}
	}
	return names
}

// readConfig reads an OperatingSystemConfig from a file.
func readConfig(name string) (*extensionsv1alpha1.OperatingSystemConfig, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}

	osc := &extensionsv1alpha1.OperatingSystemConfig{}
	if err := k8syaml.UnmarshalStrict(text, osc); err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if osc.Kind != extensionsv1alpha1.OperatingSystemConfigResource {
		return nil, fmt.Errorf("read %s: kind: %q, want %s",
			name, osc.Kind, extensionsv1alpha1.OperatingSystemConfigResource)
	}
	return osc, nil
}

// mapping returns a YAML mapping of keys, each with its value.
func mapping(pairs ...any) *yaml.Node {
	m := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i < len(pairs); i += 2 {
		add(m, pairs[i].(string), pairs[i+1].(*yaml.Node))
	}
	return m
}

func add(m *yaml.Node, key string, value *yaml.Node) {
	m.Content = append(m.Content, scalar(key), value)
}

func scalar(text string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
}

// quoted returns text that stays a string whatever replaces a placeholder in
// it.
func quoted(text string) *yaml.Node {
	n := scalar(text)
	n.Style = yaml.DoubleQuotedStyle
	if strings.Contains(text, "\n") {
		n.Style = yaml.LiteralStyle
	}
	return n
}
