package document_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/loam-os/loam/agent/document"
)

type word string

type sample struct {
	Name    string            `json:"name"`
	Word    word              `json:"word"`
	Mode    *uint32           `json:"mode"`
	Count   int8              `json:"count"`
	On      *bool             `json:"on"`
	Items   []sample          `json:"items"`
	Labels  map[string]string `json:"labels"`
	Free    any               `json:"free"`
	When    *time.Time        `json:"when"`
	Skipped string            `json:"-"`
}

func TestDecode(t *testing.T) {
	mode := uint32(0o644)
	yes := true
	when := time.Date(2026, 8, 1, 0, 0, 0, 0, time.UTC)

	for _, test := range []struct {
		name, text string
		want       sample
	}{
		{
			name: "strings, also of a named type",
			text: "name: a\n" +
				"word: b",
			want: sample{Name: "a", Word: "b"},
		},
		{name: "a decimal number", text: "mode: 420", want: sample{Mode: &mode}},
		{name: "an octal number of YAML 1.1", text: "mode: 0644", want: sample{Mode: &mode}},
		{name: "an octal number of YAML 1.2", text: "mode: 0o644", want: sample{Mode: &mode}},
		{name: "a hexadecimal number", text: "mode: 0x1a4", want: sample{Mode: &mode}},
		{name: "a negative number", text: "count: -128", want: sample{Count: -128}},
		{name: "a boolean", text: "on: true", want: sample{On: &yes}},
		{
			name: "a list of structs",
			text: "items:\n- name: a\n" +
				"- name: b",
			want: sample{Items: []sample{{Name: "a"}, {Name: "b"}}},
		},
		{
			name: "a map",
			text: "labels: {a.b/c: d}",
			want: sample{Labels: map[string]string{"a.b/c": "d"}},
		},
		{name: "a time", text: "when: 2026-08-01T00:00:00Z", want: sample{When: &when}},
		{name: "a time in quotes", text: `when: "2026-08-01T00:00:00Z"`, want: sample{When: &when}},
		{
			name: "null is absent",
			text: "name: null\nmode:\nitems: ~\nlabels: null\n" +
				"free: null",
			want: sample{},
		},
		{
			name: "an alias",
			text: "labels: {a: &x b, c: *x}",
			want: sample{Labels: map[string]string{"a": "b", "c": "b"}},
		},
		{
			name: "anything",
			text: "free: {a: [1, 0.5, true, x, null], b: {c: 2026-08-01}}",
			want: sample{Free: map[string]any{
				"a": []any{int64(1), 0.5, true, "x", nil}, "b": map[string]any{"c": "2026-08-01"},
			}},
		},
		{
			name: "JSON",
			text: "{\n\t\"name\": \"a\\u00e9\",\n\t\"items\": [{\"on\": true}]\n" +
				"}\n",
			want: sample{Name: "aé", Items: []sample{{On: &yes}}},
		},
		{name: "a marker at the start", text: "---\nname: a\n", want: sample{Name: "a"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got sample
			if err := document.Decode("x.yaml", []byte(test.text), &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Decode (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecodeErrors(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{
			name: "empty",
			text: "",
			want: "x.yaml:1: document: empty; hint: begin with apiVersion and kind",
		},
		{
			name: "only a comment",
			text: "# nothing\n",
			want: "x.yaml:1: document: empty; hint: begin with apiVersion and kind",
		},
		{
			name: "a list",
			text: "- a\n",
			want: "x.yaml:1: document: is a list, want fields; hint: write it as name: value lines",
		},
		{
			name: "broken",
			text: "name: a\n  word: b\n",
			want: "x.yaml:2: document: not YAML: mapping values are not allowed in this context; " +
				"hint: indent with spaces, " +
				"and quote a value that has a colon or begins with a special character",
		},
		{
			name: "broken on the first line",
			text: "name: [a",
			want: "x.yaml:1: document: not YAML: did not find expected ',' or ']'; hint: " +
				"indent with spaces, " +
				"and quote a value that has a colon or begins with a special character",
		},
		{
			name: "an unknown alias",
			text: "name: *a",
			want: "x.yaml:1: document: not YAML: unknown anchor 'a' referenced; hint: " +
				"indent with spaces, " +
				"and quote a value that has a colon or begins with a special character",
		},
		{
			name: "an unknown field that is near one",
			text: "items:\n" +
				"- nmae: a\n",
			want: "x.yaml:2: items[0].nmae: unknown field; hint: did you mean name?",
		},
		{
			name: "an unknown field in other case",
			text: "NAME: a\n",
			want: "x.yaml:1: NAME: unknown field; hint: did you mean name?",
		},
		{
			name: "an unknown field that is near none",
			text: "zzzzzz: a\n",
			want: "x.yaml:1: zzzzzz: unknown field; hint: known here: name, word, mode, count, " +
				"on, items, labels, free, when",
		},
		{
			name: "a duplicate key",
			text: "name: a\nword: b\n" +
				"name: c\n",
			want: "x.yaml:3: name: given twice, first on line 1; hint: keep one of them",
		},
		{
			name: "a duplicate key in a map",
			text: "labels:\n  a.b: c\n" +
				"  a.b: d\n",
			want: `x.yaml:3: labels["a.b"]: given twice, first on line 2; hint: keep one of them`,
		},
		{
			name: "a duplicate key in anything",
			text: "free: {a: 1, a: 2}\n",
			want: "x.yaml:1: free.a: given twice, first on line 1; hint: keep one of them",
		},
		{
			name: "a number for a string",
			text: "name: 5\n",
			want: `x.yaml:1: name: is the number "5", want a string; hint: put it in quotes`,
		},
		{
			name: "a string for a number",
			text: `mode: "0644"`,
			want: `x.yaml:1: mode: is the string "0644", want a whole number; hint: write digits, without quotes`,
		},
		{
			name: "a fraction for a number",
			text: "mode: 1.5",
			want: `x.yaml:1: mode: is the number "1.5", want a whole number; hint: write no fraction or exponent`,
		},
		{
			name: "an octal number with a digit too high",
			text: "mode: 0888",
			want: `x.yaml:1: mode: is "0888", which begins with 0 as an octal number does, and has an 8 or 9; hint: write digits of 0 to 7, such as 0644, or no 0 at the beginning`,
		},
		{
			name: "an octal number of YAML 1.2 with a digit too high",
			text: "mode: 0o698",
			want: `x.yaml:1: mode: is "0o698", which begins with 0 as an octal number does, and has an 8 or 9; hint: write digits of 0 to 7, such as 0644, or no 0 at the beginning`,
		},
		{
			name: "a negative number for a mode",
			text: "mode: -1",
			want: `x.yaml:1: mode: the number "-1" is out of range`,
		},
		{
			name: "a large number",
			text: "count: 128",
			want: `x.yaml:1: count: the number "128" is out of range`,
		},
		{
			name: "the word yes",
			text: "on: yes",
			want: `x.yaml:1: on: is the string "yes", want true or false; hint: write true or false, without quotes`,
		},
		{
			name: "a list for a string",
			text: "name: [a]",
			want: "x.yaml:1: name: is a list, want a string; hint: put it in quotes",
		},
		{
			name: "fields for a list",
			text: "items: {name: a}",
			want: "x.yaml:1: items: is a group of fields, want a list; hint: " +
				"begin each item with a dash",
		},
		{
			name: "a list for fields",
			text: "items: [[a]]",
			want: "x.yaml:1: items[0]: is a list, want fields; hint: write it as name: value lines",
		},
		{
			name: "a date for a time",
			text: "when: 2026-08-01",
			want: `x.yaml:1: when: is the date "2026-08-01", want a time; hint: write it as 2026-08-01T00:00:00Z (RFC 3339)`,
		},
		{
			name: "a key that is a number",
			text: "labels: {1: a}",
			want: `x.yaml:1: labels: a key is the number "1", want a name; hint: put the key in quotes`,
		},
		{
			name: "a merge key",
			text: "labels: {<<: {a: b}}",
			want: "x.yaml:1: labels: has the merge key <<; hint: write the fields out",
		},
		{
			name: "a tag",
			text: "free: !!binary aGk=",
			want: `x.yaml:1: free: is the base64 text "aGk=", and text to the Kubernetes tools; hint: put it in quotes`,
		},
		{
			name: "a second document",
			text: "name: a\n---\nname: b\n",
			want: "x.yaml:2: document: a second document begins; hint: " +
				"keep one document in a file: remove the line ---",
		},
		{
			name: "bytes that are not UTF-8",
			text: "name: a\nword: \xff\n",
			want: "x.yaml:2: document: byte 0xff is not UTF-8; hint: " +
				"the document must be UTF-8 text; put binary content into a base64 field",
		},
		{
			name: "a control character",
			text: "name: \x00",
			want: "x.yaml:1: document: holds the control character U+0000; hint: " +
				"the document must be UTF-8 text; put binary content into a base64 field",
		},
		{
			name: "too much text",
			text: strings.Repeat("#", document.MaxSize+1),
			want: "x.yaml:1: document: is 1572865 bytes, more than 1572864; hint: split it, " +
				"or fetch large content instead of embedding it",
		},
		{
			name: "an alias in itself",
			text: "free: &a [*a]",
			want: "x.yaml:1: free" + indexes(31) + ": nested more than 32 levels deep; hint: " +
				"check the brackets and the indentation",
		},
		{
			name: "two errors in the order of the text",
			text: "items:\n- x: 1\nnmae: a\n",
			want: "x.yaml:2: items[0].x: unknown field; hint: known here: name, word, mode, " +
				"count, on, items, labels, free, when\n" +
				"x.yaml:3: nmae: unknown field; hint: did you mean name?",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got sample
			err := document.Decode("x.yaml", []byte(test.text), &got)
			var errs document.Errors
			if !errors.As(err, &errs) {
				t.Fatalf("Decode: error %v, want document.Errors", err)
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("Decode (-want +got):\n%s", diff)
			}
		})
	}
}

func indexes(n int) string { return strings.Repeat("[0]", n+1) }

// A number that YAML alone reads as one is known by its notation, also behind an
// alias.
func TestTheNotationOfANumberIsKnown(t *testing.T) {
	text := "labels: {a: 10, b: -1, c: 0, d: 0x10, e: 010, f: 0o10, g: 1_0, h: +1, i: &x 0b1, j: *x, " +
		"k: \"0x10\", l: 1.5}"
	var into struct {
		Labels map[string]any `json:"labels"`
	}
	origin, err := document.DecodeWithOrigin("x.yaml", []byte(text), &into)
	if err != nil {
		t.Fatal(err)
	}

	report := document.NewReport(origin)
	odd := ""
	for _, field := range strings.Split("abcdefghijkl", "") {
		if report.HasNotation("labels." + field) {
			odd += field
		}
	}
	if odd != "defghij" {
		t.Errorf("in another notation: %s", odd)
	}
}

// A few lines that would expand to 9^9 values are an error early on.
func TestDecodeAliasBomb(t *testing.T) {
	var text strings.Builder
	text.WriteString("free:\n  a0: &a0 x\n")

	for i := 1; i <= 9; i++ {
		fmt.Fprintf(&text, "  a%d: &a%d [%s*a%d]\n",
			i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 8), i-1)
	}

	err := document.Decode("x.yaml", []byte(text.String()), new(sample))
	if err == nil || !strings.Contains(err.Error(),
		"the document has more than 100000 values; hint: use fewer aliases") {
		t.Errorf("Decode: error %v", err)
	}
}

// No number of warnings hides an error, or ends the decoding.
func TestDecodeManyErrors(t *testing.T) {
	const unknown, wrong = "- x: 1\n", "- name: [1]\n"
	for _, test := range []struct {
		name, text       string
		errors, warnings int
		last             string
	}{
		{
			name:   "errors",
			text:   strings.Repeat(wrong, 150),
			errors: 101,
			last:   "x.yaml: document: 50 more errors",
		},
		{
			name:   "errors without end",
			text:   strings.Repeat(wrong, 5000),
			errors: 101,
			last:   "x.yaml: document: 900 more errors",
		},
		{
			name:     "warnings",
			text:     strings.Repeat(unknown, 150),
			warnings: 101,
			last:     "x.yaml: document: 50 more warnings",
		},
		{
			name:     "warnings without end",
			text:     strings.Repeat(unknown, 5000),
			warnings: 101,
			last:     "x.yaml: document: 4900 more warnings",
		},
		{
			name:     "an error after warnings",
			text:     strings.Repeat(unknown, 5000) + wrong,
			errors:   1,
			warnings: 101,
			last:     "x.yaml: document: 4900 more warnings",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := document.Decode("x.yaml", []byte("items:\n"+test.text), new(sample))
			warnings, refusal := document.Lenient(err)
			refused, _ := refusal.(document.Errors)
			if len(refused) != test.errors || len(warnings) != test.warnings {
				t.Errorf("%d errors and %d warnings, want %d and %d",
					len(refused), len(warnings), test.errors, test.warnings)
			}

			all := err.(document.Errors)
			if last := all[len(all)-1].Error(); last != test.last {
				t.Errorf("the last error is %q, want %q", last, test.last)
			}
		})
	}
}

// A lenient reader decodes, with a warning, whatever the decoder of the
// Kubernetes tools accepts, in the same way. It refuses everything else.
func TestLenient(t *testing.T) {
	for _, test := range []struct {
		name, text        string
		want              sample
		warnings, refusal string
	}{
		{name: "nothing", text: "name: a\n", want: sample{Name: "a"}},
		{
			name: "an unknown field",
			text: "name: a\nlater: {b: [1]}\n",
			want: sample{Name: "a"},
			warnings: "x.yaml:2: later: unknown field; hint: known here: name, word, mode, " +
				"count, on, items, labels, free, when",
		},
		{
			name:     "the last of a duplicate key",
			text:     "items: [{name: a, word: b}]\nitems:\n- name: c\n",
			want:     sample{Items: []sample{{Name: "c"}}},
			warnings: "x.yaml:2: items: given twice, first on line 1; hint: keep one of them",
		},
		{
			name:     "the last of a duplicate key is null",
			text:     "mode: 1\nmode:\n",
			warnings: "x.yaml:2: mode: given twice, first on line 1; hint: keep one of them",
		},
		{
			name: "the last of a duplicate key, in a map and in anything",
			text: "labels: {a: b, a: c}\nfree: {a: 1, a: 2}\n",
			want: sample{
				Labels: map[string]string{"a": "c"},
				Free:   map[string]any{"a": int64(2)},
			},
			warnings: "x.yaml:1: labels.a: given twice, first on line 1; hint: keep one of them\n" +
				"x.yaml:2: free.a: given twice, first on line 2; hint: keep one of them",
		},
		{
			name: "the first of two documents",
			text: "name: a\n---\nname: b\n",
			want: sample{Name: "a"},
			warnings: "x.yaml:2: document: a second document begins; hint: " +
				"keep one document in a file: remove the line ---",
		},
		{
			name: "numbers for text",
			text: "name: 0o644\nlabels: {0o1: 0o2}\n",
			want: sample{Name: "420", Labels: map[string]string{"1": "2"}},
			warnings: "x.yaml:1: name: is the number \"0o644\", want a string; hint: " +
				"put it in quotes\n" +
				"x.yaml:2: labels: a key is the number \"0o1\", want a name; hint: " +
				"put the key in quotes\n" +
				"x.yaml:2: labels.1: is the number \"0o2\", want a string; hint: " +
				"put it in quotes",
		},
		{
			name: "text of YAML 1.1 in a free value",
			text: "free: [0o644, <<, 420, yes]",
			want: sample{Free: []any{int64(420), "<<", int64(420), true}},
			warnings: "x.yaml:1: free[1]: is the merge key \"<<\", and text to the Kubernetes tools; " +
				"hint: put it in quotes\n" +
				"x.yaml:1: free[3]: is the string \"yes\", and true to the Kubernetes tools; " +
				"hint: put it in quotes, or write true",
		},
		{
			name: "fields of a merge key",
			text: "items:\n- &a {name: a, mode: 1}\n- {<<: *a, name: b}\n",
			want: sample{Items: []sample{
				{Name: "a", Mode: new(uint32(1))}, {Name: "b", Mode: new(uint32(1))},
			}},
			warnings: "x.yaml:3: items[1]: has the merge key <<; hint: write the fields out",
		},
		{
			name: "a value of another type",
			text: "later: 1\nname: [5]\n",
			warnings: "x.yaml:1: later: unknown field; hint: known here: name, word, mode, " +
				"count, on, items, labels, free, when",
			refusal: `x.yaml:2: name: is a list, want a string; hint: put it in quotes`,
		},
		{
			name: "no YAML",
			text: "name: [a",
			refusal: "x.yaml:1: document: not YAML: did not find expected ',' or ']'; hint: " +
				"indent with spaces, " +
				"and quote a value that has a colon or begins with a special character",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got sample
			warnings, refusal := document.Lenient(document.Decode("x.yaml",
				[]byte(test.text), &got))
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("Decode (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.warnings, warnings.Error()); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}

			if refusal == nil {
				refusal = document.Errors(nil)
			}

			if diff := cmp.Diff(test.refusal, refusal.Error()); diff != "" {
				t.Errorf("refusal (-want +got):\n%s", diff)
			}
		})
	}

	warnings, refusal := document.Lenient(errNoDocument)
	if warnings != nil || refusal != errNoDocument {
		t.Errorf("an error of another kind: %v, %v", warnings, refusal)
	}
}

var errNoDocument = errors.New("no document")

func TestReport(t *testing.T) {
	text := "name: a\nitems:\n- labels:\n    text: |\n      one\n      two\n"
	origin, err := document.DecodeWithOrigin("x.yaml", []byte(text), new(sample))
	if err != nil {
		t.Fatal(err)
	}

	report := document.NewReport(origin)
	report.AddLine("items[0].labels.text", 2, "wrong", "")
	report.Add("items[0].name", "empty", "name it")
	report.Addf("name", "", "is %d", 1)

	want := "x.yaml:1: name: is 1\nx.yaml:3: items[0].name: empty; hint: name it\n" +
		"x.yaml:6: items[0].labels.text: line 2: wrong"
	if diff := cmp.Diff(want, report.Err().Error()); diff != "" {
		t.Errorf("Err (-want +got):\n%s", diff)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"name", "command", "filePaths"}
	for word, want := range map[string]string{
		"nmae": "name", "Command": "command", "comand": "command", "filepath": "filePaths", "x": "",
		"enable": "", "": "",
	} {
		if got := document.Nearest(word, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}

// FuzzDecode checks that no text makes Decode panic or name a line that does
// not exist.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("name: a\nmode: 0o644\nfree: {a: [1, 2.5, ~]}\nlabels: {a: &x b, c: *x}\n" +
		"when: 2026-08-01T00:00:00Z\n"))
	f.Add([]byte(`{"items": [{"on": true, "count": -3}]}`))
	f.Add([]byte("free: &a [*a, *a]\n<<: x\n"))

	f.Fuzz(func(t *testing.T, text []byte) {
		err := document.Decode("x.yaml", text, new(sample))
		var errs document.Errors
		if err == nil || !errors.As(err, &errs) {
			return
		}
		for _, one := range errs {
			if one.Path == "" || one.Problem == "" {
				t.Errorf("error without path or problem: %#v", one)
			}
		}
	})
}

// FuzzText checks that text decodes to what the encoder of the Kubernetes tools
// was given.
func FuzzText(f *testing.F) {
	for _, text := range []string{
		"", "0o644", "-0o1", "yes", "<<", "2026-08-01", "1_000", "[Service]\nA=b \\\n" +
			"\tc\n", "\u2028\x85", " a\n b\n\n",
	} {
		f.Add(text)
	}

	f.Fuzz(func(t *testing.T, text string) {
		if !utf8.ValidString(text) || len(text) > 512 {
			return
		}

		want := sample{Name: text, Labels: map[string]string{text: text}, Free: []any{text}}
		if text == "<<" {
			want.Labels = nil // As a key, they cannot read it back either.
		}

		encoded, err := yaml.Marshal(map[string]any{
			"name":   want.Name,
			"labels": want.Labels,
			"free":   want.Free,
		})
		if err != nil {
			return // They do not write every character either.
		}

		var got sample
		_, refusal := document.Lenient(document.Decode("x.yaml", encoded, &got))
		if refusal != nil {
			t.Fatalf("%v\n%s", refusal, encoded)
		}

		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Decode (-want +got):\n%s\n%s", diff, encoded)
		}
	})
}

func TestExceptLeavesTheErrors(t *testing.T) {
	errs := document.Errors{{Path: "a.b"}, {Path: "c"}}
	got := errs.Except(document.Errors{{Path: "a.b"}})
	if diff := cmp.Diff(document.Errors{{Path: "c"}}, got); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(document.Errors{{Path: "a.b"}, {Path: "c"}}, errs); diff != "" {
		t.Errorf("what Except was called on:\n%s", diff)
	}
}
