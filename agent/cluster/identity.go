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
	organization        = "gardener.cloud:node-agents"
	certificateLifetime = 720 * time.Hour
	// approvalPoll is how often the certificate request is read. A node agent
	// may get its own request but not watch it (osc-contract,
	// node-agent-authorizer).
	approvalPoll = time.Second
	// maxForbiddenReads is how often in a row a node agent may be forbidden to
	// read its own request before it gives up. Gardener's authorizer looks the
	// request up in a cache, which may lag behind.
	maxForbiddenReads = 10
)

// Credentials are a client certificate and its key, as PEM.
type Credentials struct {
	Certificate, Key []byte
	NotBefore        time.Time
	NotAfter         time.Time
}

// ErrDenied is returned if the cluster denied the certificate request for good.
var ErrDenied = errors.New("the request for a certificate was denied")

// errUnreadable is returned if the node may not read its certificate request,
// because another user made it: the bootstrap token, before there was a
// certificate.
var errUnreadable = errors.New("the request for a certificate may not be read")

// renewAt returns when to request the next certificate: after 0.8 to 0.88 of
// the lifetime. part, in [0, 1), spreads the requests of many nodes.
func (c Credentials) renewAt(part float64) time.Time {
	life := c.NotAfter.Sub(c.NotBefore)
	return c.NotBefore.Add(time.Duration(float64(life) * (0.8 + 0.08*part)))
}

// newKey returns a new private key as PEM (RFC 5915).
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

// signingRequest requests a client certificate of commonName for key. Its name
// is derived from both, so a restarted agent finds its earlier request.
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
	seconds := int32(certificateLifetime / time.Second)
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

// request asks the API server for a certificate for key, as the user of a, and
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
		case refused < maxForbiddenReads:
			refused++
			err = nil
		default:
			err = fmt.Errorf("%w: %w", errUnreadable, err)
		}

		if err != nil || issued != nil {
			return credentials(issued, key, err)
		}

		select {
		case <-time.After(approvalPoll):
		case <-ctx.Done():
			return Credentials{}, fmt.Errorf("wait for the certificate of request %s: %w",
				csr.Name, ctx.Err())
		}
	}
}

// issued returns the certificate of a request, nil until there is one.
func (a *api) issued(ctx context.Context, name string) ([]byte, error) {
	var csr certificates.CertificateSigningRequest
	err := a.certificates.Get().Resource("certificatesigningrequests").Name(name).Do(ctx).Into(&csr)
	if err != nil {
		return nil, fmt.Errorf("read certificate request %s: %w", name, err)
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

// credentials returns a certificate with its key, both PEM. It passes err on.
func credentials(certificate, key []byte, err error) (Credentials, error) {
	if err != nil {
		return Credentials{}, err
	}
	// A certificate of another key would fail every connection.
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return Credentials{}, fmt.Errorf("parse the certificate: %w", err)
	}
	return Credentials{certificate, key, pair.Leaf.NotBefore, pair.Leaf.NotAfter}, nil
}
