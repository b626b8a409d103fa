package cosign

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"

	"github.com/sigstore/sigstore/pkg/cryptoutils"
	"github.com/sigstore/sigstore/pkg/signature"

	"github.com/loam-os/loam/image/dsse"
)

const digest = "sha256:8cac139af4d50a74e5e702d0d848e958eacb66b6e4ac907d66facebfaf810148"

// signer returns a key, and what makes its signatures. agent/registry tests
// with those of cosign itself.
func signer(t *testing.T) (Keys, func(text string) []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := cryptoutils.MarshalPublicKeyToPEM(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	keys, err := ParseKeys([]string{string(public)})
	if err != nil {
		t.Fatal(err)
	}

	s, err := signature.LoadECDSASigner(private, crypto.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return keys, func(text string) []byte {
		t.Helper()
		sig, err := s.SignMessage(bytes.NewReader([]byte(text)))
		if err != nil {
			t.Fatal(err)
		}
		return sig
	}
}

func payloadOf(repository, kind string) string {
	return `{"critical":{"identity":{"docker-reference":"` + repository +
		`"},"image":{"docker-manifest-digest":"` + digest + `"},"type":"` + kind + `"}}`
}

func TestPayloads(t *testing.T) {
	keys, sign := signer(t)
	others, _ := signer(t)
	const kind = "cosign container image signature"
	good := payloadOf("registry.example/a/b", kind)

	for _, test := range []struct {
		name       string
		keys       Keys
		text, sig  string
		repository string
		err        string
	}{
		{name: "good", keys: keys, text: good, repository: "registry.example/a/b"},
		{
			name:       "one of two keys",
			keys:       append(others[:1:1], keys...),
			text:       good,
			repository: "registry.example/a/b",
		},
		{
			name:       "of Docker Hub, as references name it",
			keys:       keys,
			text:       payloadOf("index.docker.io/library/b", kind),
			repository: "docker.io/library/b",
		},
		{name: "by another key", keys: others, text: good, err: "not signed by a trusted key"},
		{name: "without keys", text: good, err: "not signed by a trusted key"},
		{
			name: "of another text",
			keys: keys,
			text: good,
			sig:  base64.StdEncoding.EncodeToString(sign("another")),
			err:  "not signed by a trusted key",
		},
		{name: "not base64", keys: keys, text: good, sig: "!", err: "illegal base64"},
		{
			name: "of something else",
			keys: keys,
			text: payloadOf("registry.example/a/b", "something"),
			err:  "unknown type",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.sig == "" {
				test.sig = base64.StdEncoding.EncodeToString(sign(test.text))
			}
			got, err := test.keys.Verify(Layer{
				MediaType:   payloadType,
				Annotations: map[string]string{annotation: test.sig},
				Content:     []byte(test.text),
			})
			expect(t, got, err, Claim{digest, test.repository}, test.err)
		})
	}
}

func TestBundles(t *testing.T) {
	keys, sign := signer(t)
	others, _ := signer(t)
	const predicate = "https://sigstore.dev/cosign/sign/v1"
	subject := `{"digest":{"sha256":"` + strings.TrimPrefix(digest, "sha256:") + `"}}`
	good := `{"subject":[` + subject + `],"predicateType":"` + predicate + `"}`

	for _, test := range []struct {
		name, statement, kind string
		keys                  Keys
		more                  int
		err                   string
	}{
		{name: "good", statement: good, keys: keys},
		{name: "by another key", statement: good, keys: others, err: "not signed"},
		{name: "another payload", statement: good, kind: "text/plain", keys: keys, err: "payload of type"},
		{
			name:      "a statement about it",
			statement: strings.Replace(good, predicate, "https://spdx.dev/Document", 1),
			keys:      keys,
			err:       "not the signature of an image",
		},
		{
			name:      "with more signatures than anybody makes",
			statement: good,
			keys:      keys,
			more:      maxSignatures,
			err:       "bundle with 17 signatures",
		},
		{
			name:      "of two images",
			statement: strings.Replace(good, subject, subject+","+subject, 1),
			keys:      keys,
			err:       "about 2 things",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			e := dsse.Envelope{PayloadType: test.kind, Payload: []byte(test.statement)}
			if e.PayloadType == "" {
				e.PayloadType = inToto
			}
			e.Signatures = []dsse.Signature{{Sig: sign(string(e.PAE()))}}
			for range test.more {
				e.Signatures = append(e.Signatures, e.Signatures[0])
			}

			text, err := json.Marshal(map[string]any{"dsseEnvelope": e})
			if err != nil {
				t.Fatal(err)
			}
			got, err := test.keys.Verify(Layer{
				MediaType: "application/vnd.dev.sigstore.bundle.v0.3+json",
				Content:   text,
			})
			expect(t, got, err, Claim{Digest: digest}, test.err)
		})
	}
}

func expect(t *testing.T, got Claim, err error, want Claim, wantErr string) {
	t.Helper()
	switch {
	case wantErr != "" && (err == nil || !strings.Contains(err.Error(), wantErr)):
		t.Errorf("%v, want %s", err, wantErr)
	case wantErr == "" && (err != nil || got != want):
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
}
