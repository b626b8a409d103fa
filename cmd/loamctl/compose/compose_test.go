package compose_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/cmd/loamctl/compose"
	"github.com/loam-os/loam/hint"
)

const head = "apiVersion: extensions.gardener.cloud/v1alpha1\nkind: OperatingSystemConfig\n"

// lay writes the files of an archive, and returns their directory.
func lay(t testing.TB, files ...txtar.File) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range files {
		path := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// said is what is wrong with the directory, its own path left out.
func said(dir string) string {
	doc, err := compose.Read(dir)
	if err == nil {
		err = doc.Check()
	}
	if err != nil {
		return strings.ReplaceAll(hint.Text(err), dir, "DIR")
	}
	return ""
}

func TestBaseThatIsAddedTo(t *testing.T) {
	for _, test := range []struct{ name, base, want string }{
		{"a spec that is empty", head + "spec:\n", ""},
		{"no spec", head, ""},
		{"lists that are empty", head + "spec: {units: null, files: []}\n", ""},
		{
			"JSON",
			`{"apiVersion": "extensions.gardener.cloud/v1alpha1", "kind": "OperatingSystemConfig", "spec": {"files": []}}`,
			"",
		},
		{
			"a name that is used twice",
			head + "spec: {units: [{name: a.service, content: \"[Unit]\\n\"}]}\n",
			"DIR/units/a.service: spec.units[1].content: given twice, " +
				"first at spec.units[0].content; hint: keep one of them",
		},
		{"nothing", "", "DIR/osc.yaml:1: document: empty; hint: begin with apiVersion and kind"},
		{
			"no YAML",
			"a: b: c\n",
			"DIR/osc.yaml:1: document: not YAML: mapping values are not allowed in this context; " +
				"hint: indent with spaces, and quote a value that has a colon or begins with a " +
				"special character",
		},
		{
			"another kind of document",
			"apiVersion: v1\n" +
				"kind: Pod\n",
			`DIR/osc.yaml:1: apiVersion: "v1" is not known here; hint: write apiVersion: extensions.gardener.cloud/v1alpha1` + "\n" +
				`DIR/osc.yaml:2: kind: "Pod" is not known here; hint: write kind: OperatingSystemConfig`,
		},
		{
			"a second document",
			head + "---\n" +
				"kind: x\n",
			"DIR/osc.yaml:3: document: a second document begins; hint: " +
				"keep one document in a file: remove the line ---",
		},
		{"an alias in the place of a list", head + "metadata: {a: &a []}\n" +
			"spec: {units: *a}\n", "DIR/osc.yaml: add to it: units is not a plain list or mapping"},
		{"a line of a long document", head + "spec:\n  type: a\n\n\n  # why\n  files:\n" +
			"  - path: a\n    content: {inline: {data: b}}\n",
			`DIR/osc.yaml:9: spec.files[0].path: "a" is not absolute; hint: begin it with /`},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := lay(t, txtar.File{Name: "osc.yaml", Data: []byte(test.base)},
				txtar.File{
					Name: "units/a.service",
					Data: []byte("[Service]\n" +
						"ExecStart=/bin/true\n"),
				},
				txtar.File{Name: "files/etc/b", Data: []byte("c")})
			if diff := cmp.Diff(test.want, said(dir)); diff != "" {
				t.Errorf("said (-want +got):\n%s", diff)
			}
		})
	}
}

func TestListsThatAreNone(t *testing.T) {
	for _, spec := range []string{"x", "[]", "{units: {}}", "{files: x}"} {
		dir := lay(t, txtar.File{Name: "osc.yaml", Data: []byte(head + "spec: " + spec + "\n")},
			txtar.File{Name: "units/a.service", Data: []byte("[Unit]\n")},
			txtar.File{Name: "files/etc/b", Data: []byte("c")})
		if got := said(dir); !strings.HasPrefix(got, "DIR/osc.yaml:3: spec") {
			t.Errorf("spec: %s: %s", spec, got)
		}
	}
}

func TestDirectoryThatIsTooLargeForAnyDocument(t *testing.T) {
	dir := lay(t, txtar.File{Name: "files/etc/large", Data: []byte(strings.Repeat("x", 2<<20))},
		txtar.File{Name: "files/etc/small", Data: []byte("x")})
	doc, err := compose.Read(dir)
	if err != nil {
		t.Fatal(err)
	}

	const sizes = "\n   2097152 /etc/large\n         1 /etc/small\n"
	if err := doc.Fits(); err == nil || !strings.Contains(hint.Text(err), sizes) {
		t.Errorf("error %v", err)
	}

	if got := said(dir); !strings.HasPrefix(got, "DIR: document: is 2097") {
		t.Error(got)
	}
}

// contents is what a document says of the first file and the first unit.
func contents(t *testing.T, text []byte) (file, unit string) {
	t.Helper()
	asked, err := osc.Decode("document", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}

	inline := asked.Spec.Files[0].Content.Inline
	file = *inline.Data
	if inline.Encoding == "b64" {
		raw, err := base64.StdEncoding.DecodeString(file)
		if err != nil {
			t.Fatal(err)
		}
		file = string(raw)
	}

	return file, *asked.Spec.Units[0].Content
}

// FuzzContent: what is in a file is what a node reads, whatever it is.
func FuzzContent(f *testing.F) {
	for _, text := range []string{
		"", "a", "a\n", "\n", "\n\n", " \n", "  a\nb\n", "a \nb", "a\n\n\n", "\ta\n", "a\n" +
			"\tb\n", "#!/bin/sh\nexec true\n", "true", "012", "null", "~",
		"yes", "1e3", "- a\n- b", "a: b\n", "---\n", "...\na", "%YAML", "a\r\n" +
			"b", "\x00", "\xff\xfe", "\u2028a\nb", "\u0085", "\ufeffa\nb", "'\"", "\\n", "é\n" +
			"😀\n", "<<", "2001-01-01",
	} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		unit := strings.ToValidUTF8(text, "?")
		dir := lay(t, txtar.File{Name: "files/etc/a", Data: []byte(text)},
			txtar.File{Name: "units/a.service", Data: []byte(unit)})
		doc, err := compose.Read(dir)
		if err != nil {
			t.Fatal(err)
		}

		gotFile, gotUnit := contents(t, doc.Text)
		if gotFile != text || gotUnit != unit {
			t.Errorf("file %q and unit %q, want %q and %q\n%s",
				gotFile, gotUnit, text, unit, doc.Text)
		}
	})
}
