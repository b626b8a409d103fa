package document

import (
	"math"
	"reflect"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// structure decodes a mapping into the fields of a struct.
func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string, depth int) {
	fields := d.fieldsOf(v.Type())
	d.pairs(n, path, func(key string, keyNode, value *yaml.Node) {
		index, ok := fields.index[key]
		if !ok {
			d.unknown(keyNode, Join(path, key), key, fields.names)
			return
		}

		field := v.FieldByIndex(index)
		field.SetZero() // For a duplicate key.
		d.value(value, field, Join(path, key), depth+1)

		if value.Kind != yaml.ScalarNode { // Its first item may be lines below.
			d.record(Join(path, key), keyNode)
		}
	})
}

// unknown reports the unknown field key. After very many it stops looking for a
// suggestion.
func (d *decoder) unknown(n *yaml.Node, path, key string, known []string) {
	hint := ""
	if !d.report.full() {
		hint = suggest(key, known)
	}
	d.warn(n, path, "unknown field", hint)
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string, depth int) {
	made := reflect.MakeMap(v.Type())
	d.pairs(n, path, func(key string, _, value *yaml.Node) {
		element := reflect.New(v.Type().Elem()).Elem()
		d.value(value, element, Join(path, key), depth+1)
		made.SetMapIndex(reflect.ValueOf(key).Convert(v.Type().Key()), element)
	})
	v.Set(made)
}

func (d *decoder) sequence(n *yaml.Node, v reflect.Value, path string, depth int) {
	if n.Kind != yaml.SequenceNode {
		d.wrong(n, path, "is "+describe(n)+", want a list", "begin each item with a dash")
		return
	}
	made := reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content))
	for i, item := range n.Content {
		if d.nodes >= maxNodes {
			return
		}
		d.value(item, made.Index(i), at(path, i), depth+1)
	}
	v.Set(made)
}

// pairs calls each for the usable keys of a mapping, again for a duplicate key,
// as the later value replaces the earlier.
func (d *decoder) pairs(
	n *yaml.Node, path string, each func(key string, keyNode, value *yaml.Node),
) {
	if n.Kind != yaml.MappingNode {
		d.wrong(n, orWhole(path), "is "+describe(n)+", want fields",
			"write it as name: value lines")
		return
	}

	seen := make(map[string]int, len(n.Content)/2)
	for _, one := range d.flatten(n, path, 0) {
		key, ok := d.key(one.key, path)
		if !ok {
			continue
		}

		line, twice := seen[key]
		switch {
		case one.merged: // It may be given twice.
		case twice:
			d.warn(one.key, Join(path, key), "given twice, first on line "+strconv.Itoa(line),
				"keep one of them")
		default:
			seen[key] = one.key.Line
		}

		each(key, one.key, one.value)
		if d.nodes >= maxNodes {
			return
		}
	}
}

// key returns the text of a mapping's key, of bounded length. What is not text
// is written as the Kubernetes tools write it.
func (d *decoder) key(n *yaml.Node, path string) (string, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}

	value, ok := resolve(n)
	text, isText := keyText(value)
	switch {
	case n.Kind == yaml.ScalarNode && len(n.Value) > maxKey:
		d.wrong(n, orWhole(path), "a key is longer than "+strconv.Itoa(maxKey)+" bytes", "")
		return "", false
	case n.Kind == yaml.ScalarNode && n.ShortTag() == "!!str":
		return n.Value, true
	case n.Kind != yaml.ScalarNode || !ok || !isText:
		d.wrong(n, orWhole(path), "a key is "+describe(n)+", want a name", "put the key in quotes")
		return "", false
	}

	d.warn(n, orWhole(path), "a key is "+describe(n)+", want a name", "put the key in quotes")
	return text, true
}

// keyText is asText for a key, which may be a number that JSON does not know.
func keyText(value any) (string, bool) {
	number, isFloat := value.(float64)
	switch {
	case !isFloat || isFinite(number):
		return asText(value)
	case math.IsNaN(number):
		return ".nan", true
	case number > 0:
		return ".inf", true
	}
	return "-.inf", true
}
