package cluster

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/turns"
)

// pendingConfig is the configuration that the cluster has for the node.
type pendingConfig struct {
	secret string
	uid    types.UID
	text   []byte

	// sum tells it from others: the SHA-256 of text or, if it has references,
	// textSum with their values. label is the checksum in the Secret's
	// annotation, or the SHA-256 of text if that is unset.
	sum, textSum, label string
	serial              bool

	// target is what the nodes of the pool take turns for: sum without the values
	// that only this node has.
	target string

	// references are the keys of Secrets that text refers to, if new values wait
	// for a turn, and common those that it refers to on every node; values are what
	// they have. areKnown says that each Secret was looked for.
	references, common []osc.Reference
	values             values
	areKnown           bool

	// update is what it asks for that needs a drained node, nil for nothing.
	// unclear is why that cannot be determined.
	update  *inplace.Facts
	unclear error

	// policy is how the nodes of the pool take turns, nil for none. policyErr is
	// why it cannot be read. revision orders the configurations of the pool.
	policy    *turns.Policy
	policyErr error
	revision  uint64

	// since is when the text was first seen.
	since time.Time

	// isWithdrawn says that the node is not to have it any more. It has no text then,
	// and another sum.
	isWithdrawn bool
}

// withdrawn returns p without its text, with a sum that no other one has.
func (p pendingConfig) withdrawn(turn string) *pendingConfig {
	p.sum = "withdrawn-" + turn
	p.target = p.sum
	p.textSum = ""
	p.text = nil
	p.isWithdrawn = true
	return &p
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

	p.target = p.sum
	p.label = cmp.Or(s.Annotations[checksumAnnotation], p.sum)
	p.update, p.unclear = factsOf(text, hostname)
	p.readPolicy(s)
	if p.policy != nil {
		p.references, p.common = secretReferences(text, hostname)
	}
	return p
}

// readPolicy reads the policy of the Secret, if it has one. It takes the place
// of a serial rollout and of the delay.
func (p *pendingConfig) readPolicy(s *core.Secret) {
	text, ok := s.Annotations[policyAnnotation]
	if !ok {
		return
	}

	policy, err := turns.ParsePolicy("annotation "+policyAnnotation, []byte(text))
	p.policy = &policy
	p.policyErr = err
	p.revision, _ = strconv.ParseUint(s.ResourceVersion, 10, 64) // 0 sorts first.
	p.serial = false
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
