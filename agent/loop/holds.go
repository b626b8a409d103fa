package loop

import "github.com/loam-os/loam/agent/apply"

// heldOf returns why what the source asks for is not to be applied: all of it,
// or without what waits. It is nil if neither is held.
func heldOf(h Holder, desired Desired) (*apply.Held, error) {
	for _, digest := range []string{desired.FullDigest, desired.AppliedDigest} {
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
