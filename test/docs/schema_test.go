package docs

import (
	"fmt"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/osc"
)

const (
	machineSchema = "cmd/loamctl/schema/machine.json"
	oscSchema     = "cmd/loamctl/schema/osc.json"
)

func TestSchemaPagesHaveEveryField(t *testing.T) {
	fields, err := topFields(
		reflect.TypeFor[machine.Machine](),
		"../../agent/machine",
		"../../agent/network",
		"../../agent/plane",
	)
	if err != nil {
		t.Fatal(err)
	}
	text, err := schemaText("machine.yaml", "Who a node of Loam is, and where its configuration "+
		"comes from.", fields, machineLimits())
	if err != nil {
		t.Fatal(err)
	}
	Golden(t, "../..", machineSchema, text)

	fields, err = topFields(reflect.TypeFor[osc.OperatingSystemConfig](), "../../agent/osc")
	if err != nil {
		t.Fatal(err)
	}
	text, err = schemaText("OperatingSystemConfig", "The files and units of a node.", fields,
		oscLimits())
	if err != nil {
		t.Fatal(err)
	}
	Golden(t, "../..", oscSchema, text)
}

// TestLimitsAreOfFields keeps a renamed field from losing its limit.
func TestLimitsAreOfFields(t *testing.T) {
	for _, document := range []struct {
		fields []Field
		limits limits
	}{{machineFields(t), machineLimits()}, {oscFields(t), oscLimits()}} {
		paths := map[string]bool{"": true}
		for _, f := range document.fields {
			paths[f.Path] = true
		}
		for path := range document.limits {
			if !paths[path] {
				t.Errorf("the schema has a limit for %s, which is no field", path)
			}
		}
	}
}

// judged is what a schema and the validator say of a document.
type judged struct {
	schema *jsonschema.Schema
	check  func(text string) error
}

func machineJudges(t *testing.T) judged {
	return judged{compiled(t, machineSchema), func(text string) error {
		_, err := machine.Decode("m", []byte(text))
		return err
	}}
}

func oscJudges(t *testing.T) judged {
	return judged{compiled(t, oscSchema), func(text string) error {
		decoded, err := osc.Decode("c", []byte(text))
		return osc.Check(err, decoded, osc.Env{})
	}}
}

func compiled(t *testing.T, path string) *jsonschema.Schema {
	t.Helper()
	s, err := jsonschema.NewCompiler().Compile(filepath.Join("../..", path))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// bySchema returns what the schema finds wrong with the text.
func (j judged) bySchema(t *testing.T, text string) error {
	t.Helper()
	var document any
	if err := yaml.Unmarshal([]byte(text), &document); err != nil {
		t.Fatal(err)
	}
	return j.schema.Validate(document)
}

// schemaLine names the schema of a file, relative to it.
var schemaLine = regexp.MustCompile(`^# yaml-language-server: \$schema=(\S+)\n`)

func TestExamplesNameTheirSchema(t *testing.T) {
	for name, want := range map[string]string{
		"machine.yaml": machineSchema,
		"hello.yaml":   oscSchema,
	} {
		text := read(t, "../../examples/"+name)
		match := schemaLine.FindStringSubmatch(text)
		if match == nil || filepath.Join("examples", match[1]) != want {
			t.Errorf("examples/%s does not begin by naming %s", name, want)
			continue
		}
		if err := (judged{schema: compiled(t, want)}).bySchema(t, text); err != nil {
			t.Errorf("examples/%s: %v", name, err)
		}
	}
}

// TestSchemaTakesWhatTheDocumentationShows validates all examples in the pages.
func TestSchemaTakesWhatTheDocumentationShows(t *testing.T) {
	machines := machineJudges(t)
	configs := oscJudges(t)

	for _, page := range allPages(t) {
		blocks, _ := page.Blocks()
		for _, block := range blocks {
			var err error
			switch {
			case block.Info == "yaml osc":
				err = configs.bySchema(t, block.Text)
			case block.Info == "yaml machine" && !strings.Contains(block.Text, "apiVersion:"):
				err = machines.bySchema(t, machineHeader+block.Text)
			case block.Info == "yaml machine":
				err = machines.bySchema(t, block.Text)
			}
			if err != nil {
				t.Errorf("%s: %v", block.At, err)
			}
		}
	}
}

const oscHeader = "apiVersion: extensions.gardener.cloud/v1alpha1\nkind: OperatingSystemConfig\n"

// TestSchemaFindsMistakes has mistakes in the structure of documents, which both
// the schema and the validator find.
func TestSchemaFindsMistakes(t *testing.T) {
	machines := machineJudges(t)
	configs := oscJudges(t)

	for i, test := range []struct {
		judges judged
		text   string
	}{
		{machines, "kind: Machine\n"},
		{machines, "apiVersion: loam.dev/v1alpha1\n"},
		{machines, "apiVersion: loam.dev/v1\nkind: Machine\n"},
		{machines, machineHeader + "hostName: a\n"},
		{machines, machineHeader + "hostname: 5\n"},
		{machines, machineHeader + "hostname: [a]\n"},
		{machines, machineHeader + "hostnameFrom: mac\n"},
		{machines, machineHeader + "network: {}\n"},
		{machines, machineHeader + "network: {interfaces: {name: lan}}\n"},
		{machines, machineHeader +
			"network: {interfaces: [{name: lan, nic: {any: true}, dhcp4: 'yes'}]}\n"},
		{machines, machineHeader +
			"network: {interfaces: [{nic: {any: true}, dhcp4: true}]}\n"},
		{machines, machineHeader + "source: {}\n"},
		{machines, machineHeader + "source: {esp: {path: /a}, file: {path: /a}}\n"},
		{machines, machineHeader + "source: {esp: /a}\n"},
		{machines, machineHeader + "dataVolume: {fileSystem: btrfs}\n"},
		{machines, machineHeader + "install: {disk: {}}\n"},
		{machines, machineHeader + "state: {}\n"},
		{machines, machineHeader + "state: {encrypt: yes please}\n"},
		{machines, machineHeader + "debugShell: ttyS1\n"},
		{configs, "apiVersion: v1\nkind: OperatingSystemConfig\n"},
		{configs, oscHeader + "spec: []\n"},
		{configs, oscHeader + "spec: {unit: []}\n"},
		{configs, oscHeader + "spec: {units: [{enable: true}]}\n"},
		{configs, oscHeader + "spec: {units: [{name: a.service, enabled: true}]}\n"},
		{configs, oscHeader + "spec: {units: [{name: a.service, command: run}]}\n"},
		{configs, oscHeader + "spec: {units: [{name: a.service, enable: 'yes'}]}\n"},
		{configs, oscHeader + "spec: {files: [{path: /etc/a}]}\n"},
		{configs, oscHeader + "spec: {files: [{path: /etc/a, content: {}}]}\n"},
		{configs, oscHeader +
			"spec: {files: [{path: /etc/a, permissions: '0644', content: {inline: {data: a}}}]}\n"},
		{configs, oscHeader +
			"spec: {files: [{path: /etc/a, permissions: -1, content: {inline: {data: a}}}]}\n"},
		{configs, oscHeader +
			"spec: {files: [{path: /etc/a, content: {inline: {data: a, encoding: hex}}}]}\n"},
	} {
		if test.judges.check(test.text) == nil {
			t.Errorf("%d: the validator takes\n%s", i, test.text)
		}
		if test.judges.bySchema(t, test.text) == nil {
			t.Errorf("%d: the schema takes\n%s", i, test.text)
		}
	}
}

// TestSchemaHasTheValuesOfTheValidator tries each value that the schema lists.
func TestSchemaHasTheValuesOfTheValidator(t *testing.T) {
	limits := machineLimits()
	for path, format := range map[string]string{
		"hostnameFrom": "hostnameFrom: %s\n",
		"network.interfaces[].bond.mode": "network: {interfaces: [{name: a, nic: {name: eth0}}, " +
			"{name: b, bond: {mode: %s, interfaces: [a]}, dhcp4: true}]}\n",
		"dataVolume.fileSystem":     "dataVolume: {fileSystem: %s}\n",
		"cluster.init.network":      "cluster: {init: {network: %s}}\n",
		"cluster.init.audit.policy": "cluster: {init: {audit: {policy: %s}}}\n",
		"state.encrypt":             "state: {encrypt: %s}\n",
	} {
		for _, value := range limits[path].Enum {
			text := machineHeader + fmt.Sprintf(format, value)
			if err := machineJudges(t).check(text); err != nil {
				t.Error(err)
			}
			if err := machineJudges(t).bySchema(t, text); err != nil {
				t.Error(err)
			}
		}
	}

	limits = oscLimits()
	for path, format := range map[string]string{
		"spec.purpose":         "spec: {purpose: %s}\n",
		"spec.units[].command": "spec: {units: [{name: a.service, command: %s}]}\n",
		"spec.files[].content.inline.encoding": "spec: {files: [{path: /etc/a, content: {inline: " +
			"{data: YQ==, encoding: '%s'}}}]}\n",
	} {
		for _, value := range limits[path].Enum {
			text := oscHeader + fmt.Sprintf(format, value)
			if err := oscJudges(t).check(text); err != nil {
				t.Error(err)
			}
			if err := oscJudges(t).bySchema(t, text); err != nil {
				t.Error(err)
			}
		}
	}
}
