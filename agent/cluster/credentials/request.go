package credentials

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"time"

	certificates "k8s.io/api/certificates/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

const (
	organization        = "gardener.cloud:node-agents"
	certificateLifetime = 720 * time.Hour
	// requestTimeout is how long one request may take.
	requestTimeout = 20 * time.Second
	// approvalPoll is how often the certificate request is read. A node agent
	// may get its own request but not watch it (osc-contract,
	// node-agent-authorizer).
	approvalPoll = time.Second
	// maxForbiddenReads is how often in a row a node agent may be forbidden to
	// read its own request before it gives up. Gardener's authorizer looks the
	// request up in a cache, which may lag behind.
	maxForbiddenReads = 10
	// usualApprovals is how often a request is read before its waiting is worth
	// saying: Gardener approves within seconds.
	usualApprovals = 10
)

// ErrDenied is returned if the cluster denied the certificate request for good.
var ErrDenied = errors.New("the request for a certificate was denied")

// ErrUnreadable is returned if the node may not read its certificate request,
// because another user made it: the bootstrap token, before there was a
// certificate.
var ErrUnreadable = errors.New("the request for a certificate may not be read")

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

// client talks to the API group of certificates.
type client struct {
	certificates rest.Interface
	http         *http.Client

	// waits is called while a request is not approved; nil for nobody.
	waits func(error)
}

// newClient does not connect yet.
func newClient(config *rest.Config) (*client, error) {
	scheme := runtime.NewScheme()
	if err := certificates.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register types: %w", err)
	}
	meta.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})

	config = rest.CopyConfig(config)
	config.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	config.ContentType = runtime.ContentTypeProtobuf
	config.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	config.GroupVersion = &certificates.SchemeGroupVersion
	config.APIPath = "/apis"
	config.Timeout = requestTimeout

	base, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}

	group, err := rest.RESTClientForConfigAndClient(config, base)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", config.Host, err)
	}
	return &client{certificates: group, http: base}, nil
}

func (c *client) close() { c.http.CloseIdleConnections() }

// request asks for a certificate for key and waits until it is issued.
func (c *client) request(ctx context.Context, commonName string, key []byte) (Credentials, error) {
	private, err := parseKey(key)
	if err != nil {
		return Credentials{}, err
	}

	csr, err := signingRequest(commonName, private)
	if err != nil {
		return Credentials{}, err
	}

	err = c.certificates.Post().Resource("certificatesigningrequests").Body(csr).Do(ctx).Error()
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return Credentials{}, fmt.Errorf("request a certificate: %w", err)
	}

	issued, err := c.await(ctx, csr.Name)
	if err != nil {
		return Credentials{}, err
	}
	return pair(issued, key)
}

// await returns the certificate of a request once it is issued.
func (c *client) await(ctx context.Context, name string) ([]byte, error) {
	refused := 0
	for reads := 0; ; reads++ {
		issued, err := c.issued(ctx, name)
		switch {
		case !apierrors.IsForbidden(err):
			refused = 0
		case refused < maxForbiddenReads:
			refused++
			err = nil
		default:
			err = fmt.Errorf("%w: %w", ErrUnreadable, err)
		}

		if err != nil || issued != nil {
			return issued, err
		}
		if reads >= usualApprovals && c.waits != nil {
			c.waits(pending(name))
		}

		select {
		case <-time.After(approvalPoll):
		case <-ctx.Done():
			return nil, fmt.Errorf("wait for the certificate of request %s: %w",
				name, ctx.Err())
		}
	}
}

// pending is the error of a request that nobody has approved.
func pending(name string) error {
	err := fmt.Errorf("the request for a certificate %s is not approved yet", name)
	return hint.With(fault.With(err, fault.ApprovalPending),
		"Gardener approves it if it knows the machine by this name; "+
			"`kubectl certificate approve %s` does it by hand", name)
}

// issued returns the certificate of a request, nil until there is one.
func (c *client) issued(ctx context.Context, name string) ([]byte, error) {
	var csr certificates.CertificateSigningRequest
	get := c.certificates.Get().Resource("certificatesigningrequests").Name(name)
	err := get.Do(ctx).Into(&csr)
	if err != nil {
		return nil, fmt.Errorf("read certificate request %s: %w", name, err)
	}

	approved := false
	for _, condition := range csr.Status.Conditions {
		switch {
		case condition.Status == core.ConditionFalse:
		case condition.Type == certificates.CertificateDenied,
			condition.Type == certificates.CertificateFailed:
			err := fmt.Errorf("%w: %s: %s: %s", ErrDenied, name, condition.Reason, condition.Message)
			return nil, fault.With(err, fault.ApprovalDenied)
		case condition.Type == certificates.CertificateApproved:
			approved = true
		}
	}

	if !approved || len(csr.Status.Certificate) == 0 {
		return nil, nil
	}

	return csr.Status.Certificate, nil
}
