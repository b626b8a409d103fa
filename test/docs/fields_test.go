package docs

import (
	"errors"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/osc"
)

const machineIntro = "Every field of machine.yaml. All but the first two may be absent. " +
	"[examples/machine.yaml](../../examples/machine.yaml) has them with values, [configure.md](../configure.md) explains them. " +
	"An unknown field is an error."

const oscIntro = "Every field of an OperatingSystemConfig that Loam reads (extensions.gardener.cloud/v1alpha1). " +
	"[examples/hello.yaml](../../examples/hello.yaml) shows the everyday ones."

func machineFields(t *testing.T) []Field {
	t.Helper()
	fields, err := Fields(
		reflect.TypeFor[machine.Machine](),
		"../../agent/machine",
		"../../agent/kernel",
		"../../agent/network",
		"../../agent/plane",
	)
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

func oscFields(t *testing.T) []Field {
	t.Helper()
	fields, err := Fields(reflect.TypeFor[osc.OperatingSystemConfig](), "../../agent/osc")
	if err != nil {
		t.Fatal(err)
	}
	return fields
}

func TestFieldsPagesHaveEveryField(t *testing.T) {
	Golden(
		t,
		"../..",
		"docs/reference/machine.md",
		FieldsPage("machine.yaml", "package agent/machine", machineIntro, machineFields(t)),
	)
	Golden(
		t,
		"../..",
		"docs/reference/osc.md",
		FieldsPage("OperatingSystemConfig", "package agent/osc", oscIntro, oscFields(t)),
	)
}

// TestFieldsAreThoseOfTheDecoder writes each field into a document of its own:
// the decoder must know it.
func TestFieldsAreThoseOfTheDecoder(t *testing.T) {
	for _, f := range machineFields(t) {
		var m machine.Machine
		if err := document.Decode("machine.yaml", []byte(f.example()), &m); err != nil &&
			isUnknown(err) {
			t.Errorf("%s\n%v", f.example(), err)
		}
	}
	for _, f := range oscFields(t) {
		var o osc.OperatingSystemConfig
		if err := document.Decode("osc.yaml", []byte(f.example()), &o); err != nil &&
			isUnknown(err) {
			t.Errorf("%s\n%v", f.example(), err)
		}
	}
}

// TestExampleHasEveryField holds examples/machine.yaml, with its comments,
// against the fields.
func TestExampleHasEveryField(t *testing.T) {
	text := read(t, "../../examples/machine.yaml")
	for _, f := range machineFields(t) {
		parts := strings.Split(strings.TrimSuffix(f.Path, "[]"), ".")
		if name := parts[len(parts)-1]; !strings.Contains(text, name+":") {
			t.Errorf("examples/machine.yaml has no %s", f.Path)
		}
	}
}

func TestEveryFieldHasAComment(t *testing.T) {
	for _, f := range slices.Concat(machineFields(t), oscFields(t)) {
		if f.Text == "" {
			t.Errorf("%s has no comment in the code", f.Path)
		}
	}
}

// example is a document with the field and no value.
func (f Field) example() string {
	return strings.NewReplacer("[].",
		": [{", ".", ": {", "[]", "").Replace(f.Path) + ": null" + closing(f.Path)
}

// closing returns the brackets that close the path's.
func closing(path string) string {
	parts := strings.Split(path, ".")
	closed := ""
	for i := len(parts) - 2; i >= 0; i-- {
		closed += "}"
		if strings.HasSuffix(parts[i], "[]") {
			closed += "]"
		}
	}
	return closed
}

func isUnknown(err error) bool {
	all, is := errors.AsType[document.Errors](err)
	for _, e := range all {
		if strings.Contains(e.Problem, "unknown field") {
			return true
		}
	}
	return !is
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
