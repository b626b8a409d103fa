package document

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"
)

// outcome is everything that comes of a document.
type outcome struct {
	Value  any
	At     map[string]position
	Errors string
}

func outcomeOf(decode func(into any) (Origin, error)) outcome {
	var o outcome
	origin, err := decode(&o.Value)
	o.At = origin.at
	if err != nil {
		o.Errors = err.Error()
	}
	return o
}

// sameTree compares all that the decoder looks at.
var sameTree = cmpopts.IgnoreFields(yaml.Node{}, "HeadComment", "LineComment", "FootComment")

// places compares positions.
var places = cmpopts.EquateComparable(position{})

// decodeBoth decodes before and then after by one Parser, and reports whether
// that made no full parse of after. What comes of after must be what comes of
// it alone.
func decodeBoth(t *testing.T, before, after string) (reused bool) {
	t.Helper()
	var p Parser
	_, _ = p.Decode("d", []byte(before), new(any))

	got := outcomeOf(func(into any) (Origin, error) {
		reused = p.root != nil
		root := p.root
		origin, err := p.Decode("d", []byte(after), into)
		reused = reused && p.root == root
		return origin, err
	})
	want := outcomeOf(func(into any) (Origin, error) {
		return DecodeWithOrigin("d", []byte(after), into)
	})
	if diff := cmp.Diff(want, got, places); diff != "" {
		t.Fatalf("decoded after another version (-alone +after):\n%s\nbefore:\n%s\nafter:\n%s",
			diff, before, after)
	}

	if p.root != nil {
		full := parse([]byte(after), NewReport(Origin{}))
		if diff := cmp.Diff(full, p.root, sameTree); diff != "" {
			t.Fatalf("tree (-alone +after):\n%s\nbefore:\n%s\nafter:\n%s", diff, before, after)
		}
	}

	return reused
}

func TestParserParsesOnlyItemsThatDiffer(t *testing.T) {
	const before = "kind: A\nspec:\n  units:\n  - name: a\n    content: |\n      x\n\n  - name: b\n" +
		"  files:\n  - path: /a\n    content: {inline: {data: \"a\\nb\"}}\n  - path: /b\n  - path: /c\n"

	for _, tt := range []struct {
		name, old, new string
		reused         bool
	}{
		{"a value", "path: /b", "path: /other", true},
		{"a value that is as long", "path: /b", "path: /d", true},
		{"the first item", "a\\nb", "b", true},
		{"the last item of the document", "path: /c", "path: /d", true},
		{"more lines", "\n      x\n", "\n      x\n      y\n", true},
		{"fewer lines", "    content: |\n      x\n\n", "", true},
		{"an item more", "  - path: /b\n", "  - path: /b\n    mode: 1\n  - {path: /x}\n", true},
		{"an item less", "  - path: /b\n", "", true},
		{"a value that is wrong YAML", "path: /b", "path: \"", false},
		{"a text that goes on in the next item", "path: /b", "path: \"/b\n  - path: /x", false},
		{"a list that ends early", "path: /b", "path: /b\n  x: y", false},
		{"an anchor", "path: /b", "path: &a /b", false},
		{"an alias of nothing", "path: /b", "path: *a", false},
		{"another document", "path: /b", "path: /b\n...\n", false},
		{"another indentation", "  - path: /b\n", "   - path: /b\n", false},
		{"another kind", "kind: A", "kind: B", false},
		{"two lists", "x\n\n  - name: b\n  files:\n", "y\n\n  - name: b\n  files:\n  - x\n", false},
		{"the last item of a list", "name: b", "name: c", true},
		{"a list that ends after a flow", "name: b", "name: {b: [}", false},
		{"a line that is joined", "name: b\n", "name: b ", false},
		{"another line break", "path: /b", "path: /b\r\n    x: y", false},
		{"a given key twice", "path: /b", "path: /b\n    path: /b", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			after := strings.Replace(before, tt.old, tt.new, 1)
			if after == before {
				t.Fatal("the row changes nothing")
			}
			if reused := decodeBoth(t, before, after); reused != tt.reused {
				t.Errorf("reused %v, want %v", reused, tt.reused)
			}
		})
	}
}

// TestParserFollowsManyVersions makes random edits, each of the version before.
func TestParserFollowsManyVersions(t *testing.T) {
	text, err := os.ReadFile("../osc/testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}

	random := rand.New(rand.NewPCG(1, 2))
	var p Parser
	reused := 0
	for range 3000 {
		next := edit(random, text)
		root := p.root
		got := outcomeOf(func(into any) (Origin, error) { return p.Decode("d", next, into) })
		if root != nil && p.root == root {
			reused++
		}
		want := outcomeOf(func(into any) (Origin, error) {
			return DecodeWithOrigin("d", next, into)
		})
		if diff := cmp.Diff(want, got, places); diff != "" {
			t.Fatalf("(-alone +after):\n%s\nbefore:\n%s\nafter:\n%s", diff, text, next)
		}
		if want.Errors == "" && len(next) < 64<<10 {
			text = next
		}
	}
	if reused < 300 {
		t.Errorf("%d of 3000 versions were made of the one before", reused)
	}
}

// edit returns text with some lines or bytes replaced.
func edit(random *rand.Rand, text []byte) []byte {
	lines := bytes.SplitAfter(text, newline)
	from := random.IntN(len(lines))
	to := min(len(lines), from+random.IntN(4))
	begin := len(bytes.Join(lines[:from], nil))
	end := len(bytes.Join(lines[:to], nil))

	var piece []byte
	switch random.IntN(4) {
	case 0: // a few lines of the document
		at := random.IntN(len(lines))
		piece = bytes.Join(lines[at:min(len(lines), at+1+random.IntN(6))], nil)
	case 1: // nothing
	default: // a few bytes, which mean something
		bits := []string{
			"x", "\"", "'", "- ", "-", ": ", "\n", "\n  ", "  ", "|\n", ">",
			"{", "}", "[", "]", "#",
			"&a ", "*a", "!!str ", "\n---\n", "\n...\n", "\t", "é", "\u2028", "? ", "%", "0o7",
		}
		begin += random.IntN(1 + end - begin)
		end = begin + random.IntN(1+end-begin)
		for range 1 + random.IntN(2) {
			piece = append(piece, bits[random.IntN(len(bits))]...)
		}
	}

	return bytes.Join([][]byte{text[:begin], piece, text[end:]}, nil)
}

// FuzzParser looks for two documents, the second of which is decoded otherwise
// after the first than alone.
func FuzzParser(f *testing.F) {
	f.Add("a:\n- b: c\n- d\n", "a:\n- b: c\n- e\n")
	f.Add("a:\n  - |\n    b\n  - d\n", "a:\n  - |+\n    b\n\n  - d\n")
	f.Add("- a\n- b # c\n- d\n", "- a\n# e\n- b\n\n- d\n")
	f.Add("a:\n  - - b\n    - c\n", "a:\n  - - b\n    - d\n")
	f.Fuzz(func(t *testing.T, before, after string) { decodeBoth(t, before, after) })
}

func BenchmarkParser(b *testing.B) {
	document := func(what string) []byte {
		var text bytes.Buffer
		text.WriteString("spec:\n  files:\n")
		for i := range 2000 {
			fmt.Fprintf(&text, "  - path: /etc/many/%03d\n    content: {inline: {data: %q}}\n",
				i, what+strings.Repeat("x", 200))
			what = ""
		}
		return text.Bytes()
	}

	versions := [][]byte{document("a"), document("b")}
	var p Parser
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		root := p.reparse(versions[i%2])
		if root == nil {
			root = parse(versions[i%2], NewReport(Origin{}))
		}
		p = Parser{text: versions[i%2], root: root}
	}
}
