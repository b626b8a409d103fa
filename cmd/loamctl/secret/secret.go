// Package secret is the Secret in which the nodes of a pool find their
// OperatingSystemConfig: Gardener's nodes and Loam's read the same.
package secret

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"regexp"

	"go.yaml.in/yaml/v3"

	"github.com/loam-os/loam/hint"
)

// Namespace is where nodes look.
const Namespace = "kube-system"

// A node, and whoever gives it rights, knows the Secret by these.
const (
	dataKey            = "osc.yaml"
	checksumAnnotation = "checksum/data-script"
	serialAnnotation   = "reconciliation.osc.node-agent.gardener.cloud/serial"
	roleLabel          = "gardener.cloud/role"
	role               = "operating-system-config"
	poolLabel          = "worker.gardener.cloud/pool"
)

// Secret is one pool's configuration.
type Secret struct {
	Name, Pool string
	// Serial has the nodes apply it one after the other.
	Serial bool
	Text   []byte
	// New lets Publish create it although the nodes of the cluster read others.
	New bool
}

// Checksum is what tells nodes that there is something new: SHA-256, in hex.
func (s Secret) Checksum() string {
	sum := sha256.Sum256(s.Text)
	return hex.EncodeToString(sum[:])
}

// objectName is a DNS subdomain (RFC 1123), labelValue the value of a label
// (Kubernetes, "Labels and Selectors").
var (
	objectName = regexp.MustCompile(
		`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`,
	)
	labelValue = regexp.MustCompile(`^[A-Za-z0-9]([-_.A-Za-z0-9]*[A-Za-z0-9])?$`)
)

// Check reports a name or pool that the API server would refuse.
func (s Secret) Check() error {
	if len(s.Name) > 253 || !objectName.MatchString(s.Name) {
		return hint.With(fmt.Errorf("name %q: not the name of a Secret", s.Name),
			"lower-case letters, digits, dashes and dots")
	}
	if len(s.Pool) > 63 || !labelValue.MatchString(s.Pool) {
		return hint.With(fmt.Errorf("pool %q: not the value of a label", s.Pool),
			"at most 63 letters, digits, dashes, dots and underscores")
	}
	return nil
}

// Write writes the Secret as YAML, as kubectl takes it.
func (s Secret) Write(out io.Writer) error {
	var text bytes.Buffer // An encoder hides what kind of error a write ends with.
	encoder := yaml.NewEncoder(&text)
	encoder.SetIndent(2)
	if err := encoder.Encode(s.in(nil)); err != nil {
		return err
	}
	if err := encoder.Close(); err != nil {
		return err
	}

	_, err := text.WriteTo(out)
	return err
}

// in returns the API's object with this Secret in it. have is the current
// object, nil if absent; in keeps all fields that others have set.
func (s Secret) in(have map[string]any) map[string]any {
	object := maps.Clone(have)
	if object == nil {
		object = map[string]any{"apiVersion": "v1", "kind": "Secret", "type": "Opaque"}
	}

	object["metadata"] = with(have["metadata"], map[string]any{
		"name":      s.Name,
		"namespace": Namespace,
		"labels": with(field(have, "metadata", "labels"),
			map[string]any{roleLabel: role, poolLabel: s.Pool}),
		"annotations": with(field(have, "metadata", "annotations"), s.annotations()),
	})

	object["data"] = with(have["data"],
		map[string]any{dataKey: base64.StdEncoding.EncodeToString(s.Text)})
	return object
}

func (s Secret) annotations() map[string]any {
	all := map[string]any{checksumAnnotation: s.Checksum(), serialAnnotation: nil}
	if s.Serial {
		all[serialAnnotation] = "true"
	}
	return all
}

// with is the mapping have with these fields; a nil field is removed.
func with(have any, fields map[string]any) map[string]any {
	old, _ := have.(map[string]any)
	merged := maps.Clone(old)
	if merged == nil {
		merged = map[string]any{}
	}

	maps.Copy(merged, fields)
	maps.DeleteFunc(merged, func(_ string, value any) bool { return value == nil })
	return merged
}

// field is what object has at path, nil for nothing.
func field(object map[string]any, path ...string) any {
	var value any = object
	for _, name := range path {
		mapping, _ := value.(map[string]any)
		value = mapping[name]
	}
	return value
}
