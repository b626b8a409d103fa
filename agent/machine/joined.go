package machine

import (
	"bytes"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
)

// Joined returns a machine.yaml without what only a machine needs that has not
// joined its cluster yet: the bootstrap token, and the files. Everything else of it
// means the same, but comments. A text of which that cannot be said is returned as it is.
func Joined(name string, text []byte) []byte {
	want, err := Decode(name, text)
	if err != nil {
		return text
	}
	before := want
	want.Files = nil
	token := ""
	if c := want.Source.Cluster; c != nil {
		token = c.BootstrapToken
		without := *c
		without.BootstrapToken = ""
		want.Source.Cluster = &without
	}
	if reflect.DeepEqual(want, before) {
		return text
	}

	root, err := parse(text)
	if err != nil || len(root.Content) == 0 {
		return text
	}
	resolve(&root)
	fields := root.Content[0]
	remove(fields, "files")
	remove(field(field(fields, "source"), "cluster"), "bootstrapToken")

	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	if err := encoder.Encode(&root); err != nil {
		return text
	}
	joined := out.Bytes()
	if token != "" {
		joined = bytes.ReplaceAll(joined, []byte(token), nil) // Of a comment.
	}
	if got, err := Decode(name, joined); err != nil || !reflect.DeepEqual(got, want) {
		return text
	}
	return joined
}

// resolve puts a copy in the place of each reference to another part of the document.
func resolve(n *yaml.Node) {
	for _, child := range n.Content {
		if child.Kind == yaml.AliasNode {
			*child = *child.Alias
			child.Anchor = ""
		}
		resolve(child)
	}
}

// remove removes a field of a mapping, with its value.
func remove(n *yaml.Node, name string) {
	value := field(n, name)
	if value == nil {
		return
	}
	i := slices.Index(n.Content, value)
	n.Content = slices.Delete(n.Content, i-1, i+1)
}
