package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	organization = "gardener.cloud:node-agents"
	requested    = 720 * time.Hour
	// approval is how often a request is looked at: a node agent may get its
	// own request and not watch it (osc-contract, node-agent-authorizer).
	approval = time.Second
	// hidden is how often a node agent may be refused to read its own request
	// before it gives that up: Gardener's authorizer looks it up in a cache,
	// which may not have it yet.
	hidden = 10
)

// Credentials are a client certificate and its key, as PEM.
type Credentials struct {
	Certificate, Key []byte
	NotBefore        time.Time
	NotAfter         time.Time
}

// ErrDenied says that the cluster does not take this node: its request for a
// certificate was answered, and will not be answered otherwise.
var ErrDenied = errors.New("the request for a certificate was denied")

// errUnreadable says that the node may not read the request for a certificate,
// as it was made by another user: with the bootstrap token, before there was a
// certificate.
var errUnreadable = errors.New("the request for a certificate may not be read")

// renewAt is when to ask for the next certificate: after 0.8 to 0.88 of the
// life of this one, by a part in [0, 1), so that nodes do not ask all at once.
func (c Credentials) renewAt(part float64) time.Time {
	life := c.NotAfter.Sub(c.NotBefore)
	return c.NotBefore.Add(time.Duration(float64(life) * (0.8 + 0.08*part)))
}

// newKey makes a private key, as PEM (RFC 5915).
func newKey() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

func parseKey(text []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, errors.New("parse the key: not PEM")
	}
	key, err := x509.ParseECPrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("parse the key: %w", err)
	}
	return key, nil
}

// signingRequest asks for a client certificate of commonName for key. Its name
// follows from both: who asks again, after a restart, finds what was asked.
func signingRequest(
	commonName string, key *ecdsa.PrivateKey,
) (*certificates.CertificateSigningRequest, error) {
	subject := pkix.Name{CommonName: commonName, Organization: []string{organization}}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: subject}, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate request: %w", err)
	}

	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return nil, fmt.Errorf("make a certificate request: %w", err)
	}

	sum := sha256.Sum256(append(public, commonName...))
	seconds := int32(requested / time.Second)
	return &certificates.CertificateSigningRequest{
		ObjectMeta: meta.ObjectMeta{Name: "node-agent-csr-" + hex.EncodeToString(sum[:16])},
		Spec: certificates.CertificateSigningRequestSpec{
			Request: pem.EncodeToMemory(&pem.Block{
				Type:  "CERTIFICATE REQUEST",
				Bytes: der,
			}),
			SignerName:        certificates.KubeAPIServerClientSignerName,
			ExpirationSeconds: &seconds,
			Usages: []certificates.KeyUsage{
				certificates.UsageDigitalSignature, certificates.UsageKeyEncipherment,
				certificates.UsageClientAuth,
			},
		},
	}, nil
}

// request asks the API server, as whoever a is, for a certificate for key and
// waits until it is issued.
func (a *api) request(ctx context.Context, commonName string, key []byte) (Credentials, error) {
	private, err := parseKey(key)
	if err != nil {
		return Credentials{}, err
	}

	csr, err := signingRequest(commonName, private)
	if err != nil {
		return Credentials{}, err
	}

	err = a.certificates.Post().Resource("certificatesigningrequests").Body(csr).Do(ctx).Error()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return Credentials{}, fmt.Errorf("request a certificate: %w", err)
	}

	for refused := 0; ; {
		issued, err := a.issued(ctx, csr.Name)
		switch {
		case !apierrors.IsForbidden(err):
			refused = 0
		case refused < hidden:
			refused++
			err = nil
		default:
			err = fmt.Errorf("%w: %w", errUnreadable, err)
		}

		if err != nil || issued != nil {
			return credentials(issued, key, err)
		}

		select {
		case <-time.After(approval):
		case <-ctx.Done():
			return Credentials{}, fmt.Errorf("wait for the certificate of request %s: %w",
				csr.Name, ctx.Err())
		}
	}
}

// issued is the certificate of a request, nil as long as there is none.
func (a *api) issued(ctx context.Context, name string) ([]byte, error) {
	var csr certificates.CertificateSigningRequest
	err := a.certificates.Get().Resource("certificatesigningrequests").Name(name).Do(ctx).Into(&csr)
	if err != nil {
		return nil, fmt.Errorf("look at certificate request %s: %w", name, err)
	}

	approved := false
	for _, c := range csr.Status.Conditions {
		switch {
		case c.Status == core.ConditionFalse:
		case c.Type == certificates.CertificateDenied, c.Type == certificates.CertificateFailed:
			return nil, fmt.Errorf("%w: %s: %s: %s", ErrDenied, name, c.Reason, c.Message)
		case c.Type == certificates.CertificateApproved:
			approved = true
		}
	}

	if !approved || len(csr.Status.Certificate) == 0 {
		return nil, nil
	}

	return csr.Status.Certificate, nil
}

// credentials are of a certificate and its key, as PEM.
func credentials(certificate, key []byte, err error) (Credentials, error) {
	if err != nil {
		return Credentials{}, err
	}
	pair, err := tls.X509KeyPair(certificate, key) // Of another key, every connection would fail.
	if err != nil {
		return Credentials{}, fmt.Errorf("parse the certificate: %w", err)
	}
	return Credentials{certificate, key, pair.Leaf.NotBefore, pair.Leaf.NotAfter}, nil
}
