package registry

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	godigest "github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"
	"github.com/sigstore/sigstore/pkg/signature/payload"

	"github.com/loam-os/loam/agent/cosign"
	"github.com/loam-os/loam/image/dsse"
	"github.com/loam-os/loam/test/cluster"
)

// signer signs images of a registry with a key of its own.
type signer interface {
	keys() cosign.Keys
	// sign signs an image. A bundle is what cosign makes by default, the other
	// format has the tag sha256-DIGEST.sig.
	sign(t *testing.T, r *cluster.Registry, bundle bool, name, digest string)
	// copySignature gives an image the signature, not a bundle, that it has in
	// another repository.
	copySignature(t *testing.T, r *cluster.Registry, from, to, digest string)
}

// eachSigner runs a test with signatures of its own, and with those of the real
// cosign, whose program takes minutes to build, in the full suite.
func eachSigner(t *testing.T, test func(*testing.T, func(*testing.T) signer)) {
	t.Run("own", func(t *testing.T) { test(t, newOwnSigner) })
	if !testing.Short() {
		t.Run("cosign", func(t *testing.T) { test(t, newCosign) })
	}
}

// program is the real cosign.
type program struct {
	path, dir string
	public    cosign.Keys
}

func newCosign(t *testing.T) signer {
	t.Helper()
	p := program{path: cluster.Program(t, "cosign"), dir: t.TempDir()}
	p.run(t, "generate-key-pair")
	text, err := os.ReadFile(filepath.Join(p.dir, "cosign.pub"))
	if err != nil {
		t.Fatal(err)
	}
	p.public, err = cosign.ParseKeys([]string{string(text)})
	if err != nil {
		t.Fatal(err)
	}

	return p
}

func (p program) run(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), p.path, args...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "HOME="+p.dir, "COSIGN_PASSWORD=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cosign %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (p program) keys() cosign.Keys { return p.public }

func (p program) sign(t *testing.T, r *cluster.Registry, bundle bool, name, digest string) {
	t.Helper()
	p.run(t, "sign", "--key", "cosign.key", "--yes", "--allow-http-registry",
		"--use-signing-config=false", "--tlog-upload=false",
		fmt.Sprintf("--new-bundle-format=%t", bundle), r.Address()+"/"+name+"@"+digest)
}

func (p program) copySignature(t *testing.T, r *cluster.Registry, from, to, digest string) {
	t.Helper()
	p.run(t, "copy", "--allow-http-registry", r.Address()+"/"+from+"@"+digest,
		r.Address()+"/"+to+":v1")
}

// ownSigner makes the signatures itself, as cosign's specifications have them
// (specs/SIGNATURE_SPEC.md, specs/BUNDLE_SPEC.md).
type ownSigner struct {
	private signature.Signer
	public  cosign.Keys
}

func newOwnSigner(t *testing.T) signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := cryptoutils.MarshalPublicKeyToPEM(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := cosign.ParseKeys([]string{string(public)})
	if err != nil {
		t.Fatal(err)
	}

	private, err := signature.LoadECDSASigner(key, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return ownSigner{private: private, public: keys}
}

func (s ownSigner) keys() cosign.Keys { return s.public }

func (s ownSigner) signature(t *testing.T, text []byte) []byte {
	t.Helper()
	made, err := s.private.SignMessage(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func (s ownSigner) sign(t *testing.T, r *cluster.Registry, bundle bool, name, digest string) {
	t.Helper()
	if bundle {
		s.addBundle(t, r, name, digest)
		return
	}
	s.addPayload(t, r, name, digest, name)
}

// copySignature makes the same signature for the other repository.
func (s ownSigner) copySignature(t *testing.T, r *cluster.Registry, from, to, digest string) {
	t.Helper()
	s.addPayload(t, r, to, digest, from)
}

// addPayload adds the signature of a payload that names the repository claimed.
func (s ownSigner) addPayload(t *testing.T, r *cluster.Registry, name, digest, claimed string) {
	t.Helper()
	text, err := json.Marshal(payload.SimpleContainerImage{Critical: payload.Critical{
		Identity: payload.Identity{DockerReference: r.Address() + "/" + claimed},
		Image:    payload.Image{DockerManifestDigest: digest},
		Type:     payload.CosignSignatureType,
	}})
	if err != nil {
		t.Fatal(err)
	}

	layer := r.Upload(t, name, "application/vnd.dev.cosign.simplesigning.v1+json", text)
	layer.Annotations = map[string]string{
		"dev.cosignproject.cosign/signature": base64.StdEncoding.EncodeToString(
			s.signature(t, text)),
	}

	tag := cosign.Tag(digest)
	m := cluster.Manifest{SchemaVersion: 2, MediaType: cluster.ManifestType}
	if r.Find(t, name, tag, &m); len(m.Layers) == 0 {
		m.Config = r.Upload(t, name, ocispec.MediaTypeImageConfig, []byte("{}"))
	}
	m.Layers = append(m.Layers, layer)
	r.Put(t, name, tag, cluster.ManifestType, m)
}

// addBundle adds a bundle to the referrers of an image, which are an index with a
// tag in a registry without an API for them (OCI distribution specification,
// "Referrers Tag Schema").
func (s ownSigner) addBundle(t *testing.T, r *cluster.Registry, name, digest string) {
	t.Helper()
	const bundleType = "application/vnd.dev.sigstore.bundle.v0.3+json"
	algorithm, hex, _ := strings.Cut(digest, ":")
	statement, err := json.Marshal(map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"predicateType": "https://sigstore.dev/cosign/sign/v1",
		"subject":       []any{map[string]any{"digest": map[string]string{algorithm: hex}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	envelope := dsse.Envelope{PayloadType: "application/vnd.in-toto+json", Payload: statement}
	envelope.Signatures = []dsse.Signature{{Sig: s.signature(t, envelope.PAE())}}
	text, err := json.Marshal(map[string]any{"mediaType": bundleType, "dsseEnvelope": envelope})
	if err != nil {
		t.Fatal(err)
	}

	m := ocispec.Manifest{MediaType: ocispec.MediaTypeImageManifest, ArtifactType: bundleType}
	m.SchemaVersion = 2
	m.Config = ocispec.DescriptorEmptyJSON
	r.Upload(t, name, m.Config.MediaType, m.Config.Data)
	m.Layers = []ocispec.Descriptor{toSpec(r.Upload(t, name, bundleType, text))}
	var subject json.RawMessage
	r.Find(t, name, digest, &subject)
	m.Subject = &ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageManifest,
		Digest:    godigest.Digest(digest),
		Size:      int64(len(subject)),
	}
	referrer := toSpec(r.Put(t, name, "", cluster.ManifestType, m))
	referrer.ArtifactType = bundleType

	tag := algorithm + "-" + hex
	index := ocispec.Index{MediaType: ocispec.MediaTypeImageIndex}
	index.SchemaVersion = 2
	r.Find(t, name, tag, &index)
	index.Manifests = append(index.Manifests, referrer)
	r.Put(t, name, tag, cluster.IndexType, index)
}

func toSpec(d cluster.Descriptor) ocispec.Descriptor {
	return ocispec.Descriptor{
		MediaType: d.MediaType,
		Digest:    godigest.Digest(d.Digest),
		Size:      int64(d.Size),
	}
}
