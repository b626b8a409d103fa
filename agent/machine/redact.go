package machine

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/redact"
)

// mask takes the place of a secret.
const mask = redact.Mask

// Redact returns a machine.yaml to be shown: without passwords in URLs, the
// secrets of bootstrap tokens, and the content of files that only their owner may
// read. Of a signed document it returns what was signed. A document that cannot be
// read is an error, as nothing says what in it is secret; so is one with a field
// twice, merged fields or a second document, which no node takes.
func Redact(text []byte) (string, error) {
	opened, err := trust.Open(text)
	if err != nil {
		return "", err
	}

	root, err := parse(opened.Text)
	if err != nil {
		return "", fault.With(fmt.Errorf("machine.yaml: %w", err), fault.DocumentInvalid)
	}
	if !redactNode(&root) {
		return string(opened.Text), nil
	}

	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	err = encoder.Encode(&root)
	return out.String(), err
}

// parse reads a single document in which each field is written out once.
func parse(text []byte) (yaml.Node, error) {
	var root, second yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		return root, err
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		return root, errors.New("there is more than one document in it")
	}
	return root, checkFields(&root)
}

// checkFields returns an error if a field is given twice, or merged.
func checkFields(n *yaml.Node) error {
	names := map[string]bool{}
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			name := strings.ToLower(child.Value)
			if names[name] || name == "<<" {
				return fmt.Errorf("line %d: a field is given twice, or merged", child.Line)
			}
			names[name] = true
		}
		if err := checkFields(child); err != nil {
			return err
		}
	}
	return nil
}

// redactNode takes the secrets out of a node and all below it, and reports whether
// it had any.
func redactNode(n *yaml.Node) bool {
	changed := isPrivateFile(n) && hide(n, "content", "base64")
	if token := field(n, "bootstrapToken"); token != nil && !bootstrapToken.MatchString(token.Value) {
		changed = hide(n, "bootstrapToken") || changed // What is wrong is no less a secret.
	}
	for _, text := range []*string{&n.Value, &n.HeadComment, &n.LineComment, &n.FootComment} {
		redacted := RedactText(*text)
		if redacted != *text {
			*text = redacted
			changed = true
		}
	}
	for _, child := range n.Content {
		if redactNode(child) {
			changed = true
		}
	}
	return changed
}

// RedactText takes the passwords of URLs and the secrets of bootstrap tokens out of
// a text.
func RedactText(text string) string { return redact.Tokens(redact.URLs(text)) }

// isPrivateFile reports whether a node may be an [InitialFile] that only its owner
// may read.
func isPrivateFile(n *yaml.Node) bool {
	if field(n, "path") == nil {
		return false
	}
	mode := field(n, "mode")
	if mode == nil {
		return true
	}
	bits, err := strconv.ParseUint(mode.Value, 0, 32)
	const readByOthers = 0o004
	return err != nil || bits&readByOthers == 0
}

// hide hides fields of a mapping, and reports whether it has any of them.
func hide(n *yaml.Node, names ...string) bool {
	hidden := false
	for _, name := range names {
		if value := field(n, name); value != nil {
			*value = yaml.Node{
				Kind:  yaml.ScalarNode,
				Tag:   "!!str",
				Value: mask,
			}
			hidden = true
		}
	}
	return hidden
}

// field returns the value of a field of a mapping, also one whose name has other
// capital letters; nil if it has none, or n is none.
func field(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if strings.EqualFold(n.Content[i].Value, name) {
			return n.Content[i+1]
		}
	}
	return nil
}
