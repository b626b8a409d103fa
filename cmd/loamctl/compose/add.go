package compose

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"

	"github.com/loam-os/loam/agent/osc"
)

// add makes Text of the base, with units and files at the end of its lists.
func (d *Document) add(units, files []part) error {
	base := d.baseText
	if base == nil {
		base = fmt.Appendf(nil, "apiVersion: %s\nkind: %s\n", osc.APIVersion, osc.Kind)
	}

	var root yaml.Node
	if err := yaml.Unmarshal(base, &root); err != nil || len(root.Content) != 1 {
		return d.unfit(err)
	}

	spec, err := child(root.Content[0], "spec", yaml.MappingNode)
	if err != nil {
		return d.unfit(err)
	}
	if err := d.extend(spec, unitsName, units); err != nil {
		return err
	}
	if err := d.extend(spec, filesName, files); err != nil {
		return err
	}

	d.Text, err = encode(&root)
	return err
}

// unfit is why nothing can be added to the base: the strict decoder says it
// best, if it finds anything.
func (d *Document) unfit(err error) error {
	if _, wrong := osc.Decode(d.base, d.baseText); wrong != nil {
		return wrong
	}
	return fmt.Errorf("%s: add to it: %w", d.base, err)
}

// extend adds parts to the list name of spec.
func (d *Document) extend(spec *yaml.Node, name string, parts []part) error {
	if len(parts) == 0 {
		return nil
	}

	list, err := child(spec, name, yaml.SequenceNode)
	if err != nil {
		return d.unfit(err)
	}

	for _, p := range parts {
		for at, from := range p.from {
			d.from[fmt.Sprintf("spec.%s[%d]%s", name, len(list.Content), at)] = from
		}
		list.Content = append(list.Content, p.entry.node())
	}

	return nil
}

// child returns the value of the field name, and adds it if absent.
func child(node *yaml.Node, name string, kind yaml.Kind) (*yaml.Node, error) {
	if node.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s has no place", name)
	}

	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value != name {
			continue
		}

		value := node.Content[i+1]
		if value.Kind == yaml.ScalarNode && value.ShortTag() == "!!null" {
			*value = yaml.Node{Kind: kind}
		}

		if value.Kind != kind {
			return nil, fmt.Errorf("%s is not a plain list or mapping", name)
		}

		return value, nil
	}

	value := &yaml.Node{Kind: kind}
	node.Content = append(node.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, value)
	return value, nil
}

func encode(root *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(root); err != nil {
		return nil, err
	}

	return out.Bytes(), encoder.Close()
}
