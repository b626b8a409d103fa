package plane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/plane/pki"
)

// client is an administrator of a cluster.
type client struct{ http.Client }

// newClient returns a client in the network of the API server, whose clock is now.
func newClient(
	t testing.TB, store pki.Store, times pki.Times, network *namespace, now func() time.Time,
) *client {
	t.Helper()
	authorities, err := store.Authorities()
	if err != nil {
		t.Fatal(err)
	}
	ca := authorities[pki.CA]
	text, err := ca.Issue(pki.Leaf{
		Name:   "admin",
		User:   "admin",
		Groups: []string{"system:masters"},
		Client: true,
	}, times)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		t.Fatal(err)
	}

	roots := x509.NewCertPool()
	roots.AddCert(ca.Certificate)
	return &client{http.Client{
		Timeout: 10 * time.Second,
		Transport: &http.Transport{
			DialContext: network.dial,
			TLSClientConfig: &tls.Config{
				RootCAs:      roots,
				ServerName:   pki.ServerName,
				Certificates: []tls.Certificate{pair},
				Time:         now,
			},
		},
	}}
}

// answer is what the API server said.
type answer struct {
	body []byte
	date string
	// serial is the serial number of the certificate that it served.
	serial string
}

// do sends a request to the API server.
func (c *client) do(ctx context.Context, method, path, body string) (answer, error) {
	url := "https://127.0.0.1:6443" + path
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		req.Header.Set("Content-Type", "application/merge-patch+json")
	}

	resp, err := c.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	serial := resp.TLS.PeerCertificates[0].SerialNumber.String()
	return answer{text, resp.Header.Get("Date"), serial}, err
}
