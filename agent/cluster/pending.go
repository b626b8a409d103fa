package cluster

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/osc"
)

// pendingConfig is the configuration that the cluster has for the node.
type pendingConfig struct {
	secret string
	uid    types.UID
	text   []byte

	// sum is the SHA-256 of text. label is the checksum in the Secret's
	// annotation, or sum if that is unset.
	sum, label string
	serial     bool

	// update is what it asks for that needs a drained node, nil for nothing.
	// unclear is why that cannot be determined.
	update  *inplace.Facts
	unclear error

	// since is when the text was first seen.
	since time.Time
}

// pendingConfigOf reads a Secret for the node with that host name.
func pendingConfigOf(s *core.Secret, hostname string, now time.Time) pendingConfig {
	text := s.Data[dataKey]
	sum := sha256.Sum256(text)
	p := pendingConfig{
		secret: s.Name,
		uid:    s.UID,
		text:   text,
		sum:    hex.EncodeToString(sum[:]),
		serial: s.Annotations[serialAnnotation] == "true",
		since:  now,
	}

	p.label = cmp.Or(s.Annotations[checksumAnnotation], p.sum)
	p.update, p.unclear = factsOf(text, hostname)
	return p
}

// factsOf returns what a configuration asks for that needs a drained node, nil
// for nothing.
func factsOf(text []byte, hostname string) (*inplace.Facts, error) {
	if !bytes.Contains(text, []byte("inPlaceUpdates")) {
		return nil, nil // Decoding takes time.
	}

	decoded, _ := osc.Decode(dataKey, text) // The loop reports its errors.
	update := decoded.Update()
	if update == nil {
		return nil, nil
	}

	facts, err := inplace.FactsOf(*update, decoded.Inline(inplace.KubeletConfig, hostname))
	return &facts, err
}
