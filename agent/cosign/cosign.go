// Package cosign verifies signatures of container images that cosign has made
// with a key. It knows both formats:
//
//	tag sha256-DIGEST.sig: layer with a simple signing payload, the signature
//	                       is an annotation of the layer
//	referrer of the image: layer with a bundle of Sigstore, a DSSE envelope
//	                       around an in-toto statement
//
// (sigstore/cosign, specs/SIGNATURE_SPEC.md and specs/BUNDLE_SPEC.md.) The
// caller fetches the layers. Transparency logs and certificates do not count:
// a node trusts keys, and may have no way to a log.
package cosign

import (
	"bytes"
	"crypto"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/loam-os/loam/image/dsse"
)

// Media types of layers with signatures. The version at the end of a bundle's
// type varies.
const (
	payloadType  = "application/vnd.dev.cosign.simplesigning.v1+json"
	bundlePrefix = "application/vnd.dev.sigstore.bundle"
)

const (
	// annotation of a layer has the signature of its payload.
	annotation = "dev.cosignproject.cosign/signature"
	// inToto is the type of the payload in a bundle.
	inToto = "application/vnd.in-toto+json"
	// isSignature is the predicate of a statement that is the signature of an
	// image. A key may also sign other statements about it, such as an SBOM.
	isSignature = "https://sigstore.dev/cosign/sign/v1"
)

// maxSignatures bounds the work of verifying a bundle.
const maxSignatures = 16

// Tag returns the tag of the signatures of the image with that digest, which is
// sha256:HEX.
func Tag(digest string) string { return strings.Replace(digest, ":", "-", 1) + ".sig" }

// IsBundle reports whether a referrer of that type has signatures.
func IsBundle(artifactType string) bool { return strings.HasPrefix(artifactType, bundlePrefix) }

// Keys are the public keys whose signatures count.
type Keys []signature.Verifier

// ParseKeys reads public keys, each as PEM: cosign.pub.
func ParseKeys(texts []string) (Keys, error) {
	var keys Keys
	for i, text := range texts {
		public, err := cryptoutils.UnmarshalPEMToPublicKey([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}

		key, err := signature.LoadVerifier(public, crypto.SHA256)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// Layer is a layer of a manifest with signatures.
type Layer struct {
	MediaType   string
	Annotations map[string]string
	Content     []byte
}

// Claim is what a signature says of an image.
type Claim struct {
	// Digest is the image's, as sha256:HEX.
	Digest string
	// Repository is the image's, such as registry.example/kubelet; "" if the
	// signature does not name it, as in a bundle.
	Repository string
}

// ErrNotSigned is returned for a layer that none of the keys has signed.
var ErrNotSigned = errors.New("not signed by a trusted key")

// Verify returns what one of the keys has signed in the layer.
func (k Keys) Verify(l Layer) (Claim, error) {
	switch {
	case l.MediaType == payloadType:
		return k.payload(l)
	case IsBundle(l.MediaType):
		return k.bundle(l.Content)
	}
	return Claim{}, fmt.Errorf("layer of type %.80q: not a signature", l.MediaType)
}

func (k Keys) payload(l Layer) (Claim, error) {
	sig, err := base64.StdEncoding.DecodeString(l.Annotations[annotation])
	if err != nil {
		return Claim{}, fmt.Errorf("annotation %s: %w", annotation, err)
	}
	if !k.signed(l.Content, sig) {
		return Claim{}, ErrNotSigned
	}

	var signed payload.Cosign
	if err := json.Unmarshal(l.Content, &signed); err != nil {
		return Claim{}, fmt.Errorf("payload: %w", err)
	}

	repository := signed.Image.Context().Name()
	if rest, ok := strings.CutPrefix(repository, "index.docker.io/"); ok {
		repository = "docker.io/" + rest
	}
	return Claim{Digest: signed.Image.DigestStr(), Repository: repository}, nil
}

// bundle reads the part of a bundle that a key has signed
// (sigstore/protobuf-specs, sigstore_bundle.proto).
func (k Keys) bundle(text []byte) (Claim, error) {
	var b struct {
		Envelope dsse.Envelope `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(text, &b); err != nil {
		return Claim{}, fmt.Errorf("bundle: %w", err)
	}
	if b.Envelope.PayloadType != inToto {
		return Claim{}, fmt.Errorf("bundle with a payload of type %.80q: want %s",
			b.Envelope.PayloadType, inToto)
	}

	if n := len(b.Envelope.Signatures); n > maxSignatures {
		return Claim{}, fmt.Errorf("bundle with %d signatures: want at most %d", n, maxSignatures)
	}

	covered := b.Envelope.PAE()
	by := func(s dsse.Signature) bool { return k.signed(covered, s.Sig) }
	if !slices.ContainsFunc(b.Envelope.Signatures, by) {
		return Claim{}, ErrNotSigned
	}
	return claim(b.Envelope.Payload)
}

// claim reads an in-toto statement.
func claim(text []byte) (Claim, error) {
	var statement struct {
		PredicateType string `json:"predicateType"`
		Subject       []struct {
			Digest map[string]string `json:"digest"`
		} `json:"subject"`
	}
	if err := json.Unmarshal(text, &statement); err != nil {
		return Claim{}, fmt.Errorf("statement: %w", err)
	}

	if statement.PredicateType != isSignature || len(statement.Subject) != 1 {
		return Claim{}, fmt.Errorf("statement of type %.80q about %d things: not the signature "+
			"of an image", statement.PredicateType, len(statement.Subject))
	}
	return Claim{Digest: "sha256:" + statement.Subject[0].Digest["sha256"]}, nil
}

// signed reports whether one of the keys has signed the text.
func (k Keys) signed(text, sig []byte) bool {
	return slices.ContainsFunc(k, func(key signature.Verifier) bool {
		return key.VerifySignature(bytes.NewReader(sig), bytes.NewReader(text)) == nil
	})
}
