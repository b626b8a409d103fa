package document

import (
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
	for i := 0; i+1 < len(n.Content) && d.nodes < maxNodes; i += 2 {
		keyNode := n.Content[i]
		value := n.Content[i+1]

		key, ok := d.key(keyNode, path)
		if !ok {
			continue
		}

		if line, twice := seen[key]; twice {
			d.warn(keyNode, Join(path, key), "given twice, first on line "+strconv.Itoa(line),
				"keep one of them")
		} else {
			seen[key] = keyNode.Line
		}

		each(key, keyNode, value)
	}
}

// key returns the text of a mapping's key: a plain string of bounded length.
func (d *decoder) key(n *yaml.Node, path string) (string, bool) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}

	switch {
	case n.ShortTag() == "!!merge":
		d.wrong(n, orWhole(path), "the merge key << is not supported",
			"write the fields out, or use an alias for a whole value")
	case n.Kind != yaml.ScalarNode || n.ShortTag() != "!!str" && !isOldText(n):
		d.wrong(n, orWhole(path), "a key is "+describe(n)+", want a name", "put the key in quotes")
	case len(n.Value) > maxKey:
		d.wrong(n, orWhole(path), "a key is longer than "+strconv.Itoa(maxKey)+" bytes", "")
	default:
		return n.Value, true
	}

	return "", false
}
