package document_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	kubernetes "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/loam-os/loam/agent/document"
)

// shape has a field of each kind that a document has.
type shape struct {
	Text   string            `json:"text"`
	Number *int32            `json:"number"`
	Count  uint16            `json:"count"`
	Truth  *bool             `json:"truth"`
	Items  []shape           `json:"items"`
	Labels map[string]string `json:"labels"`
	Free   any               `json:"free"`
	Group  *shape            `json:"group"`
}

// scalars are written in many ways.
var scalars = strings.Fields(`yes Yes YES no No on ON off Off y n Y N true True TRUE false tRue null Null ~
	0 5 -5 +5 007 0644 089 0o644 0o8 0x1F 0X1f 0xZZ 0b11 -0b11 1_000 1__0 _1 0777_0 1.0 5.0 5.5 -0.0 1e3 1E3
	12e03 1.5e1 1e-3 .5 5. . - .inf -.INF .nan 1e400 12345678901234567890 18446744073709551616 2147483648
	65536 190:20:30 12:30 2026-01-01 2026-01-01T00:00:00Z 2001-12-14t21:59:43.10-05:00 << = text
	'yes' "yes" '5' "0o7" '' "" !!str&5 !!str&yes !!int&5 !!int&"5" !!int&5.5 !!float&5 !!float&1.5
	!!bool&yes !!bool&"true" !!bool&5 !!null&'' !!null&x !!binary&aGk= !!binary&% !own&x !own&5 1.2.3
	v1.30 1.30 0.1 100% 10m 1Gi +.inf 0x 0b 0o 00 -0 --5 5-5 0.1e-400 1.7976931348623157e308`)

// groups are whole fields.
var groups = []string{
	"text: [a]", "text: {a: b}", "number: [1]", "truth: {}", "items: {text: a}", "items: a", "items: null",
	"items: [null, {text: a}]", "items:\n- \n- text: a", "items: [[]]", "labels: [a]", "labels: a",
	"labels: {a: null}", "labels: {a: 5, b: 1.50}", "labels: {1: a, 0x10: b, 1.5: c}",
	"labels: {null: a}", "labels: {~: a}", "labels: {[a]: b}", "labels: {a: b, a: c}", "labels: null",
	"free: {1: a, 1.5: b}", "free: {a: 1, a: 2}", "free: [1, [2, {a: yes}]]", "free: !!set {a, b}",
	"free: !!map {a: 1}", "free: !!seq [a]", "free: {<<: {a: 1}, b: 2}", "group: {<<: {text: a}}",
	"group: {<<: {text: a}, text: b}", "group: {text: b, <<: {text: a}}",
	"group: {<<: [{text: a}, {text: b, count: 5}]}", "group: {<<: []}", "group: {<<: 5}",
	"group: {<<: [5]}", "group: {<<: null}", "group: {<<: {<<: {text: a}, count: 1}}",
	"items: [&a {text: a}, {<<: *a, count: 5}, *a]", "free: {<<: {a: {b: 1}}, a: {c: 2}}",
	"labels: {<<: {a: b}, c: d}", "labels: {'<<': a}", "free: {'<<': {a: 1}}", "free: &x [*x]", "free: [*x]", "free: &x {<<: *x}", "group: &x {<<: [*x]}",
	"text: |\n  5\n", "text: >\n  yes\n  no\n", "text: a\n---\ntext: b", "--- {text: a}\n...", "[]", "a", "5",
	"text: \"a\\x41\\u00e9\"", "Text: a", "later: {a: 1}", "text: a\nlater: 5", "text: a\ntext: b",
	"text: 5\ntext: b", "group:\n  text: a\n  group: {items: [{number: 0644}]}", "? text\n: a", "? [a]\n: b",
	"{\"text\": \"a\", \"number\": 5}", "{\"number\": 5.0, \"free\": {\"a\": 1e2}}", "text: a # note", "text: 'it''s'",
	"free: {yes: 1}", "free: {0644: a}", "free: {2026-01-01: a}", "free: {!!str 5: a}", "free: {\"\": a}",
	"number: !!int 0o17", "truth: !!str yes", "count: -1", "count: 70000", "text: %a", "text: @a", "text: `a`",
	"text: a: b", "text:a", "\ttext: a", "text:\ta", "text: a\n  b\n", "items:\n- text: a\n text: b",
}

// shapes are all of them, in each place.
func shapes() []string {
	all := slices.Clone(groups)
	for _, scalar := range scalars {
		scalar = strings.ReplaceAll(scalar, "&", " ")
		for _, field := range []string{"text", "number", "count", "truth", "free", "group"} {
			all = append(all, field+": "+scalar)
		}
		all = append(all, "labels: {a: "+scalar+"}", "free: [{a: "+scalar+"}]", "items: [{number: "+scalar+"}]")
	}
	return all
}

// TestLenientIsKubernetes decodes many shapes as a document from a cluster, and
// by the decoder of Kubernetes. What that takes has the same value here. It
// takes no number and no boolean for text; sigs.k8s.io/yaml does, and so does a
// node.
func TestLenientIsKubernetes(t *testing.T) {
	taken := 0
	for _, text := range shapes() {
		var want, have shape
		encoded, wantErr := yaml.YAMLToJSON([]byte(text))
		if wantErr == nil {
			wantErr = kubernetes.UnmarshalCaseSensitivePreserveInts(encoded, &want)
		}
		if wantErr != nil && isScalarForText.MatchString(wantErr.Error()) {
			var other shape
			if err := yaml.Unmarshal([]byte(text), &other); err == nil {
				want = other
				wantErr = nil
			}
		}

		_, haveErr := document.Lenient(document.Decode("x.yaml", []byte(text), &have))
		switch {
		case isOldWord(text):
			if haveErr != nil {
				t.Errorf("%q: %v", text, haveErr)
			}
		case (wantErr == nil) != (haveErr == nil):
			t.Errorf("%q: %v, and Kubernetes %v", text, haveErr, wantErr)
		case wantErr == nil:
			taken++
			if diff := cmp.Diff(plain(t, want), plain(t, have)); diff != "" {
				t.Errorf("%q (-Kubernetes +here):\n%s", text, diff)
			}
		}
	}
	t.Logf("%d shapes, %d of them taken", len(shapes()), taken)
}

var isScalarForText = regexp.MustCompile(`^json: cannot unmarshal (number|bool) into .* type string$`)

// isOldWord reports whether text gives a text field a word that is a boolean in
// YAML 1.1 and text in YAML 1.2, as which nodes have always read it. Kubernetes
// refuses it.
func isOldWord(text string) bool {
	_, word, _ := strings.Cut(text, ": ")
	word = strings.Trim(strings.TrimPrefix(word, "{a: "), "}")
	isText := strings.HasPrefix(text, "text: ") || strings.HasPrefix(text, "labels: ")
	return isText && slices.Contains(strings.Fields("yes Yes YES no No on ON off Off y n Y N"), word)
}

// plain returns the value as JSON, in which 1 and 1.0 are one number.
func plain(t *testing.T, value shape) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	var any any
	if err := json.Unmarshal(text, &any); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(any)
}
