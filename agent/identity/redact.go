package identity

import (
	"bytes"
	"fmt"
	"reflect"

	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/source"
)

// Redact takes the bootstrap token out of a machine.yaml on the ESP once the
// node has its certificate, and returns the document as it is then. The token
// is good for nothing from then on but to join as another node. It runs at each
// start of the agent, before anything else writes to the ESP. A document that is
// signed, or whose digest counts in place of a signature, stays as it is. The
// error is a warning: the document stays as it is then, too.
func (s Store) Redact(doc source.Document) (source.Document, error) {
	verbatim := doc.Verified || doc.SignedSerial != 0
	if doc.Kind != source.FromESP || verbatim || !credentials.Joined(s.Records.Root(), s.Now()) {
		return doc, nil
	}
	text, ok := withoutToken(doc.Name, doc.Text)
	if !ok {
		return doc, nil
	}

	esp := source.Partition{Device: s.ESP}
	if err := esp.Redact(source.ESPPath, text); err != nil {
		return doc, fmt.Errorf("take the bootstrap token out of %s: %w", doc.Name, err)
	}
	s.Log.Info("took the bootstrap token out of machine.yaml: the node has its certificate")
	doc.Text = text
	return doc, nil
}

// withoutToken returns a machine.yaml without its bootstrap token. ok is false
// if it has none, or if anything else would change.
func withoutToken(name string, text []byte) (redacted []byte, ok bool) {
	want, err := machine.Decode(name, text)
	if err != nil || want.Source.Cluster == nil || want.Source.Cluster.BootstrapToken == "" {
		return nil, false
	}
	token := []byte(want.Source.Cluster.BootstrapToken)
	want.Source.Cluster.BootstrapToken = ""

	// In quotes, nothing is left between them; otherwise quotes are.
	for _, empty := range []string{"", `""`} {
		redacted = bytes.ReplaceAll(text, token, []byte(empty))
		got, err := machine.Decode(name, redacted)
		if err == nil && reflect.DeepEqual(got, want) && !bytes.Contains(redacted, token) {
			return redacted, true
		}
	}
	return nil, false
}
