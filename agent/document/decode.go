package document

import (
	"reflect"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Limits on what a document may expand to. Aliases count each time they are
// used, so that a few lines cannot become a tree that fills the memory.
const (
	maxNodes = 100_000
	maxDepth = 32
	maxKey   = 512
)

// Decode reads the document in text into the struct that into points to,
// including everything before and after an error. Errors are of type Errors and
// name the file as given.
func Decode(name string, text []byte, into any) error {
	_, err := DecodeWithOrigin(name, text, into)
	return err
}

// DecodeWithOrigin is Decode for callers that validate the value afterwards and
// want lines in their errors.
func DecodeWithOrigin(name string, text []byte, into any) (Origin, error) {
	return decodeBy(name, into, func(report *Report) *yaml.Node { return parse(text, report) })
}

// decodeBy decodes the tree that parse returns. parse returns nil after it has
// reported an error.
func decodeBy(name string, into any, parse func(*Report) *yaml.Node) (Origin, error) {
	report := NewReport(Origin{file: name, at: map[string]position{Whole: start}})
	root := parse(report)
	if root == nil {
		return report.origin, report.Err()
	}

	report.origin.at = make(map[string]position, 1+countFields(root))
	report.origin.at[Whole] = start
	d := decoder{report: report, origin: report.origin, types: map[reflect.Type]fields{}}
	d.value(root, reflect.ValueOf(into).Elem(), "", 0)
	return d.origin, report.Err()
}

var start = position{line: 1, column: 1}

// countFields returns the number of fields and list items in n, without
// aliases.
func countFields(n *yaml.Node) int {
	count := len(n.Content)
	if n.Kind == yaml.MappingNode {
		count /= 2
	}
	for _, child := range n.Content {
		if len(child.Content) > 0 {
			count += countFields(child)
		}
	}
	return count
}

// decoder walks the tree of a document. Functions decode single values, and return
// what they have found.
type decoder struct {
	report *Report
	origin Origin
	nodes  int
	types  map[reflect.Type]fields
}

// value decodes n into v of any type. path is "" for the root.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string, depth int) {
	d.record(path, n)
	n, ok := d.enter(n, path, depth)
	if !ok {
		return
	}
	if n.ShortTag() == "!!null" {
		if _, isNull := resolve(n); !isNull {
			d.wrong(n, path, "is tagged !!null, and "+Quote(n.Value), "leave out the tag")
		}
		return
	}

	switch {
	case v.Type() == timeType:
		d.note(n, path, setTime(n, v))
	case v.Kind() == reflect.Pointer:
		target := reflect.New(v.Type().Elem())
		d.value(n, target.Elem(), path, depth)
		v.Set(target)
	case v.Kind() == reflect.Interface:
		if free := d.free(n, path, depth); free != nil {
			v.Set(reflect.ValueOf(free))
		}
	case v.Kind() == reflect.Struct:
		d.structure(n, v, path, depth)
	case v.Kind() == reflect.Map:
		d.mapping(n, v, path, depth)
	case v.Kind() == reflect.Slice:
		d.sequence(n, v, path, depth)
	default:
		d.note(n, path, setScalar(n, v))
	}
}

// enter follows an alias and enforces the limits. After the first error about a
// limit nothing more is decoded or reported.
func (d *decoder) enter(n *yaml.Node, path string, depth int) (*yaml.Node, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	d.nodes++
	switch {
	case d.nodes == maxNodes:
		d.wrong(n, path, "the document has more than "+strconv.Itoa(maxNodes)+" values",
			"use fewer aliases")
	case depth > maxDepth:
		d.wrong(n, path, "nested more than "+strconv.Itoa(maxDepth)+" levels deep",
			"check the brackets and the indentation")
		d.nodes = maxNodes
	}
	return n, d.nodes < maxNodes
}

// record stores where a field stands.
func (d *decoder) record(path string, n *yaml.Node) {
	if path != "" {
		d.origin.at[path] = place(n)
	}
}

// note reports what was found about the value n, if anything was.
func (d *decoder) note(n *yaml.Node, path string, f finding) {
	switch {
	case f == (finding{}):
	case f.lenient:
		d.warn(n, path, f.problem, f.hint)
	default:
		d.wrong(n, path, f.problem, f.hint)
	}
}

// wrong reports an error at n, and stops decoding after very many.
func (d *decoder) wrong(n *yaml.Node, path, problem, hint string) {
	d.report.addAt(place(n), path, problem, hint)
	if len(d.report.errs) >= maxKept {
		d.nodes = maxNodes
	}
}

// warn reports something at n that a lenient reader accepts.
func (d *decoder) warn(n *yaml.Node, path, problem, hint string) {
	d.report.warnAt(place(n), path, problem, hint)
}

// decimal matches a whole number as JSON has it (RFC 8259, 6).
var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

func place(n *yaml.Node) position {
	value := n
	if n.Kind == yaml.AliasNode {
		value = n.Alias
	}
	return position{
		line:     n.Line,
		column:   n.Column,
		block:    n.Style&yaml.LiteralStyle != 0,
		null:     n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null",
		notation: value.ShortTag() == "!!int" && !decimal.MatchString(value.Value),
	}
}
