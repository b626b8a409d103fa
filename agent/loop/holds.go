package loop

import (
	"context"
	"errors"

	"github.com/loam-os/loam/agent/apply"
)

// Holds is what a step has found or made of the holds.
type Holds struct {
	// Held is why the configuration of the source is not to be applied by
	// itself, nil if it is not held. Err says that this is unknown, or that the
	// configuration cannot be held.
	Held *apply.Held
	Err  error
	// Released is why the configuration that the source gave before is still
	// held; nil if it is not.
	Released error
	// Source is the digest of the source's configuration that was held for a
	// caller's, empty if none was.
	Source string
}

// holds makes the holds what a configuration that was read entails. The error
// is why a caller's cannot be applied.
func (w worker) holds(ctx context.Context, step Step, r Reading) (Holds, error) {
	if step.Request != nil {
		return w.holdForCaller(step, r)
	}
	if ctx.Err() != nil {
		return Holds{}, nil
	}

	var h Holds
	if last := step.Desired.FullDigest; last != "" && last != r.FullDigest {
		h.Released = releaseHold(w.engine, last)
	}
	h.Held, h.Err = heldOf(w.engine, r.FullDigest, r.digest())
	return h, nil
}

// holdForCaller releases what a caller wants applied, although it may be held,
// and holds the source's configuration meanwhile.
func (w worker) holdForCaller(step Step, r Reading) (h Holds, err error) {
	digest := r.digest()
	err = errors.Join(w.engine.Release(digest), w.engine.Release(r.FullDigest))
	if err != nil || digest == step.Have.Digest {
		return h, err
	}
	h.Source, err = holdSource(w.engine, step.Desired, digest, "replaced by `loam apply "+r.Name+"`")
	return h, err
}

// holdForHeld holds the source's configuration for a held generation that is
// applied again.
func (w worker) holdForHeld(step Step, generation, digest string) (h Holds) {
	h.Source, h.Err = holdSource(w.engine, step.Desired, digest,
		"replaced by `loam rollback "+generation+" --held`")
	return h
}

// heldOf returns why what the source asks for is not to be applied: all of it,
// or without what waits. It is nil if neither is held.
func heldOf(h Holder, digests ...string) (*apply.Held, error) {
	for _, digest := range digests {
		held, is, err := h.Held(digest)
		if err != nil {
			return nil, err
		}
		if is {
			return &held, nil
		}
	}
	return nil, nil
}

// releaseHold lets a configuration of the source count again, should the source
// say it once more, if nothing but an operator's request held it.
func releaseHold(h Holder, digest string) error {
	held, is, err := h.Held(digest)
	if err != nil || !is || !held.Operator {
		return err
	}
	return h.Release(digest)
}

// holdSource keeps the configuration of the source from replacing what an
// operator applies, until the source changes. digest is the digest of what is
// applied. holdSource returns the digest that it has held, empty if there was
// nothing to hold.
func holdSource(h Holder, desired Desired, digest, why string) (string, error) {
	if desired.AppliedDigest == "" || desired.AppliedDigest == digest {
		return "", nil
	}
	_, was, err := h.Held(desired.FullDigest)
	if err != nil || was {
		return "", err
	}

	held := apply.Held{
		Digest:   desired.FullDigest,
		Why:      why,
		Operator: true,
	}
	return desired.FullDigest, h.Hold(held)
}
