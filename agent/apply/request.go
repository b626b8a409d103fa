package apply

import (
	"errors"
	"time"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Request is a configuration to apply.
type Request struct {
	Desired config.Desired

	// Digest is the digest of Desired, if the caller has it; making it takes
	// time.
	Digest string

	// Source names the document, for operators.
	Source string

	// Try is how long the configuration stays without being confirmed. Zero
	// means for good.
	Try time.Duration
}

func (r Request) digest() string {
	if r.Digest == "" {
		return r.Desired.Digest()
	}
	return r.Digest
}

// ErrNothingBefore means that a change cannot be tried, because the node has no
// earlier configuration to go back to.
var ErrNothingBefore = hint.With(
	fault.With(errors.New("the node has no configuration yet that it could go back to"),
		fault.NothingBefore),
	"apply it without --try",
)
