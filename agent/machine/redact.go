package machine

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/loam-os/loam/agent/trust"
	"github.com/loam-os/loam/hint/fault"
)

// mask takes the place of a secret, as in [url.URL.Redacted].
const mask = "xxxxx"

var (
	// password is the password of a URL.
	password = regexp.MustCompile(`(://[^/\s:@]*:)[^/\s]+@`)
	// tokenSecret is a bootstrap token, of which the part before the dot is no secret.
	tokenSecret = regexp.MustCompile(`\b([a-z0-9]{6})\.[a-z0-9]{16}\b`)
)

// Redact returns a machine.yaml to be shown: without passwords in URLs, the
// secrets of bootstrap tokens, and the content of files that only their owner may
// read. Of a signed document it returns what was signed. A document that cannot be
// read is an error, as nothing says what in it is secret.
func Redact(text []byte) (string, error) {
	opened, err := trust.Open(text)
	if err != nil {
		return "", err
	}

	var root yaml.Node
	if err := yaml.Unmarshal(opened.Text, &root); err != nil {
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

// redactNode takes the secrets out of a node and all below it, and reports whether
// it had any.
func redactNode(n *yaml.Node) bool {
	changed := isPrivateFile(n) && hideContent(n)
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
func RedactText(text string) string {
	text = password.ReplaceAllString(text, "${1}"+mask+"@")
	return tokenSecret.ReplaceAllString(text, "${1}."+mask)
}

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

// hideContent hides the content of a file, and reports whether it has any.
func hideContent(file *yaml.Node) bool {
	hidden := false
	for _, name := range []string{"content", "base64"} {
		if content := field(file, name); content != nil {
			*content = yaml.Node{
				Kind:  yaml.ScalarNode,
				Tag:   "!!str",
				Value: mask,
			}
			hidden = true
		}
	}
	return hidden
}

// field returns the value of a field of a mapping, nil if it has none.
func field(n *yaml.Node, name string) *yaml.Node {
	if n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}
