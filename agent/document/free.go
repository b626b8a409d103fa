package document

import "go.yaml.in/yaml/v3"

// free decodes n as the JSON types: map[string]any, []any, string, bool, int64
// or float64, nil for null.
func (d *decoder) free(n *yaml.Node, path string, depth int) any {
	switch n.Kind {
	case yaml.MappingNode:
		fields := map[string]any{}
		d.pairs(n, path, func(key string, keyNode, value *yaml.Node) {
			key, found := freeKey(keyNode, key)
			d.note(keyNode, orWhole(path), found)
			fields[key] = d.freeItem(value, Join(path, key), depth+1)
		})
		return fields
	case yaml.SequenceNode:
		items := make([]any, 0, len(n.Content))
		for i, item := range n.Content {
			if d.nodes >= maxNodes {
				break
			}
			items = append(items, d.freeItem(item, at(path, i), depth+1))
		}
		return items
	}

	value, found := freeScalar(n)
	d.note(n, path, found)
	return value
}

func (d *decoder) freeItem(n *yaml.Node, path string, depth int) any {
	n, ok := d.enter(n, path, depth)
	if !ok {
		return nil
	}
	return d.free(n, path, depth)
}

// freeKey returns the key as the Kubernetes tools have it, to which yes is true.
func freeKey(n *yaml.Node, key string) (string, finding) {
	value, _ := resolve(n)
	if _, isBool := value.(bool); !isBool || n.ShortTag() != "!!str" {
		return key, finding{}
	}
	return textOf(value), accepted("a key is "+describe(n)+", and "+textOf(value)+
		" to the Kubernetes tools", "put the key in quotes")
}

// freeScalar returns a scalar as JSON has it.
func freeScalar(n *yaml.Node) (any, finding) {
	value, ok := resolve(n)
	if number, isFloat := value.(float64); !ok || (isFloat && !isFinite(number)) {
		return n.Value, refused("is "+describe(n)+", want a value that JSON knows",
			"put it in quotes")
	}

	found := checkFree(n, value)
	switch number := value.(type) {
	case uint64:
		return float64(number), found
	case float64:
		return number + 0, found // Not -0.
	}
	return value, found
}

// checkFree finds a scalar that the Kubernetes tools take for a value that its
// writer probably did not mean.
func checkFree(n *yaml.Node, value any) finding {
	_, isText := value.(string)
	switch n.ShortTag() {
	case "!!null", "!!int", "!!float", "!!bool":
		return finding{}
	case "!!str", "!!timestamp": // JSON has no times: they stay text.
		if isText {
			return finding{}
		}
		return accepted("is "+describe(n)+", and "+textOf(value)+" to the Kubernetes tools",
			"put it in quotes, or write "+textOf(value))
	}
	return accepted("is "+describe(n)+", and text to the Kubernetes tools", "put it in quotes")
}
