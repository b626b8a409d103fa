package document

import (
	"bytes"
	"sort"

	"go.yaml.in/yaml/v3"
)

// Parser decodes one version of a document after the other. It parses again
// only the items of a list that differ from the version before, as parsing is
// most of the cost of a large document that changes little. The zero Parser has
// seen no version.
//
// Only the YAML tree is reused: a Parser returns the values, the errors and the
// lines that [DecodeWithOrigin] returns.
type Parser struct {
	text []byte
	root *yaml.Node
}

// Decode is [DecodeWithOrigin] for the next version of the document. text must
// not change afterwards.
func (p *Parser) Decode(name string, text []byte, into any) (Origin, error) {
	root := p.reparse(text)
	*p = Parser{}

	return decodeBy(name, into, func(report *Report) *yaml.Node {
		if root == nil {
			root = parse(text, report)
			if root == nil || len(report.warnings) > 0 || !isSimple(root, 0) {
				return root
			}
		}
		if !hasOtherBreaks(text) {
			*p = Parser{text: text, root: root}
		}
		return root
	})
}

// reparse returns the tree of text if text is the last version with other items
// in one list, and nil otherwise.
//
// It parses the lines of these items as a document of its own, with the same
// result as within the whole text. The parser begins them in the same state,
// since the text up to the dash of the first item has not changed. Nothing is
// open at their end, since a document can end there and the next line is not
// indented further than the dashes. So the parser reaches the rest, which has
// not changed either, in the same state as in the last version.
func (p *Parser) reparse(text []byte) *yaml.Node {
	if p.root == nil || len(text) > MaxSize {
		return nil
	}

	same := commonPrefix(p.text, text)
	rest := commonSuffix(p.text[same:], text[same:])
	lines := lineStarts(p.text)
	old, ok := findItems(p.root, p.text, lines, same, len(p.text)-rest, len(p.text))
	if !ok {
		return nil
	}

	changed := text[old.begin : old.end+len(text)-len(p.text)]
	if old.end < len(p.text) && !bytes.HasSuffix(changed, newline) {
		return nil
	}
	items, ok := parseItems(changed, old.list.Column)
	if !ok {
		return nil
	}

	had := bytes.Count(p.text[old.begin:old.end], newline)
	if more := bytes.Count(changed, newline) - had; more != 0 {
		shift(p.root, lineOf(lines, old.end), more)
	}
	for _, item := range items {
		shift(item, 0, lineOf(lines, old.begin)-1)
	}

	all := old.list.Content
	old.list.Content = append(append(all[:old.first:old.first], items...), all[old.after:]...)
	return p.root
}

// items are the items first up to after of a list, and their text, which begins
// and ends with a line.
type items struct {
	list         *yaml.Node
	first, after int
	begin, end   int
}

// findItems returns the items that have the bytes of text from from to to, in a
// list that is reached through mappings. The two bytes of the first item's dash
// are before from. end is where the line of what follows n begins.
func findItems(
	n *yaml.Node, text []byte, lines []int, from, to, end int,
) (items, bool) {
	if n.Style&yaml.FlowStyle != 0 {
		return items{}, false
	}

	begin := func(n *yaml.Node) int { return lines[n.Line-1] }
	if n.Kind == yaml.MappingNode {
		for i := len(n.Content) - 1; i > 0; i -= 2 {
			if found, ok := findItems(n.Content[i], text, lines, from, to, end); ok {
				return found, true
			}
			key := n.Content[i-1]
			end = begin(key)
			if !isIndented(text[end:], key.Column) {
				return items{}, false
			}
		}
	}
	if n.Kind != yaml.SequenceNode {
		return items{}, false
	}

	found := items{list: n, end: end}
	found.first = sort.Search(len(n.Content), func(i int) bool {
		return begin(n.Content[i])+n.Column+1 > from
	}) - 1
	found.after = sort.Search(len(n.Content), func(i int) bool {
		return begin(n.Content[i]) >= to
	})
	if found.first < 0 {
		return items{}, false
	}

	found.begin = begin(n.Content[found.first])
	if found.after < len(n.Content) {
		found.end = begin(n.Content[found.after])
		if !hasDash(text[found.end:], n.Column) {
			return items{}, false
		}
	}

	return found, hasDash(text[found.begin:], n.Column) && found.end >= to
}

// isIndented reports whether only spaces are before that column, from 1, of the
// first line of text.
func isIndented(text []byte, column int) bool {
	return len(text) >= column && len(bytes.TrimLeft(text[:column-1], " ")) == 0
}

// hasDash reports whether an item of a list in that column begins on the first
// line of text.
func hasDash(text []byte, column int) bool {
	return len(text) > column && isIndented(text, column) &&
		text[column-1] == '-' && (text[column] == ' ' || text[column] == '\n')
}

// parseItems returns the items of a text that is nothing but a list in that
// column.
func parseItems(text []byte, column int) ([]*yaml.Node, bool) {
	if !hasDash(text, column) || hasOtherBreaks(text) || hasMarker(text) {
		return nil, false
	}

	report := NewReport(Origin{})
	list := parse(text, report)
	if list == nil || report.Err() != nil || list.Kind != yaml.SequenceNode ||
		list.Column != column || list.Line != 1 || !isSimple(list, 0) {
		return nil, false
	}

	return list.Content, true
}

// isSimple reports whether n parses in the same way wherever it is: it has no
// anchors and aliases, and is not so deep that a parser might refuse it.
func isSimple(n *yaml.Node, depth int) bool {
	if n.Kind == yaml.AliasNode || n.Anchor != "" || depth > maxDepth {
		return false
	}
	for _, child := range n.Content {
		if !isSimple(child, depth+1) {
			return false
		}
	}
	return true
}

// hasOtherBreaks reports whether text may have lines that do not end with a
// line feed (YAML 1.1, 4.2).
func hasOtherBreaks(text []byte) bool {
	for _, lineBreak := range []string{"\r", "\u0085", "\u2028", "\u2029"} {
		if bytes.Contains(text, []byte(lineBreak)) {
			return true
		}
	}
	return false
}

// hasMarker reports whether text may have a line that begins or ends a document
// (YAML 1.2, 9.1.2).
func hasMarker(text []byte) bool {
	return bytes.Contains(text, []byte("\n---")) || bytes.Contains(text, []byte("\n...")) ||
		bytes.HasPrefix(text, []byte("---"))
}

// shift adds to the lines of all nodes from line on.
func shift(n *yaml.Node, line, more int) {
	if n.Line >= line {
		n.Line += more
	}
	for _, child := range n.Content {
		shift(child, line, more)
	}
}

var newline = []byte{'\n'}

// lineStarts returns where each line begins.
func lineStarts(text []byte) []int {
	starts := make([]int, 1, 1+bytes.Count(text, newline))
	for i := 0; ; {
		next := bytes.IndexByte(text[i:], '\n')
		if next < 0 {
			return starts
		}
		i += next + 1
		starts = append(starts, i)
	}
}

// lineOf returns the number, from 1, of the line that begins at start.
func lineOf(starts []int, start int) int { return 1 + sort.SearchInts(starts, start) }

func commonPrefix(a, b []byte) int {
	n := min(len(a), len(b))
	i := 0
	for ; i+block <= n && bytes.Equal(a[i:i+block], b[i:i+block]); i += block {
	}
	for ; i < n && a[i] == b[i]; i++ {
	}
	return i
}

func commonSuffix(a, b []byte) int {
	n := min(len(a), len(b))
	endA := a[len(a)-n:]
	endB := b[len(b)-n:]
	i := n
	for ; i >= block && bytes.Equal(endA[i-block:i], endB[i-block:i]); i -= block {
	}
	for ; i > 0 && endA[i-1] == endB[i-1]; i-- {
	}
	return n - i
}

// block is how many bytes are compared at once.
const block = 256
