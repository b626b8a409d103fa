package compose

import (
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// node is u as an entry of spec.units.
func (u *unit) node() *yaml.Node {
	n := mapping("name", text(u.Name))
	if u.Content != nil {
		set(n, "content", text(*u.Content))
	}

	dropIns := &yaml.Node{Kind: yaml.SequenceNode}
	for _, d := range u.DropIns {
		dropIns.Content = append(dropIns.Content,
			mapping("name", text(d.Name), "content", text(d.Content)))
	}
	if len(dropIns.Content) > 0 {
		set(n, "dropIns", dropIns)
	}

	return n
}

// node is f as an entry of spec.files. Permissions are decimal, as the
// Kubernetes API has them.
func (f file) node() *yaml.Node {
	in := f.Content.Inline
	inline := mapping("data", text(in.Data))
	if in.Encoding != "" {
		inline = mapping("encoding", text(in.Encoding), "data", text(in.Data))
	}

	mode := &yaml.Node{Kind: yaml.ScalarNode, Value: strconv.FormatUint(uint64(f.Permissions), 10)}
	return mapping("path", text(f.Path), "permissions", mode, "content", mapping("inline", inline))
}

// mapping has names and nodes in turn.
func mapping(fields ...any) *yaml.Node {
	n := &yaml.Node{Kind: yaml.MappingNode}
	for i := 0; i < len(fields); i += 2 {
		set(n, fields[i].(string), fields[i+1].(*yaml.Node))
	}
	return n
}

func set(n *yaml.Node, name string, value *yaml.Node) {
	n.Content = append(n.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, value)
}

// plain is what needs no quotes, unless a reader of YAML 1.1 or 1.2 takes it
// for something else than a string.
var (
	plain      = regexp.MustCompile(`^[A-Za-z/][-+=A-Za-z0-9_./@]*$`)
	notStrings = regexp.MustCompile(`^(?i:true|false|yes|no|on|off|y|n|null)$`)
)

// text is a string: lines as a block where a block says exactly that text, in
// quotes else. Blocks with leading or trailing blanks are read differently.
func text(value string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
	switch lines := strings.Contains(value, "\n"); {
	case lines && (strings.ContainsAny(value[:1], " \t\n") || strings.Contains(value, " \n") ||
		strings.HasSuffix(value, "\n\n")):
		n.Style = yaml.DoubleQuotedStyle
	case lines && isText([]byte(value)):
		n.Style = yaml.LiteralStyle
	case !plain.MatchString(value) || notStrings.MatchString(value):
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}
