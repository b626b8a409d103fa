package local

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
)

// EtcdHealth returns nil if the node's etcd can write.
func EtcdHealth(ctx context.Context) error {
	return check(ctx, http.DefaultClient, plane.EtcdHealthURL)
}

// APIHealth returns nil if the node's API server is ready.
func APIHealth(ctx context.Context, store plane.Store) error {
	pair, authority, err := store.Client(pki.Kubelet)
	if err != nil {
		return err
	}

	roots := x509.NewCertPool()
	roots.AddCert(authority)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs:      roots,
		ServerName:   pki.ServerName,
		Certificates: []tls.Certificate{pair},
	}}}
	defer client.CloseIdleConnections()
	return check(ctx, client, plane.APIHealthURL)
}

// Probes returns probes of the programs of a control plane by their units, for package
// liveness: whether they answer, each time over a connection of its own. No secret is
// sent and nothing is believed, so neither side needs a certificate. dial is that of
// [net.Dialer].
func Probes(
	dial func(ctx context.Context, network, address string) (net.Conn, error),
) map[string]func(ctx context.Context) error {
	probes := map[string]func(context.Context) error{}
	for unit, url := range plane.AliveURLs {
		probes[unit] = func(ctx context.Context) error {
			client := &http.Client{Transport: &http.Transport{
				DialContext:       dial,
				DisableKeepAlives: true,
				TLSClientConfig:   &tls.Config{InsecureSkipVerify: true},
			}}
			return check(ctx, client, url)
		}
	}
	return probes
}

// check returns why a URL does not answer with 200.
func check(ctx context.Context, client *http.Client, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()

	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, strings.ToLower(response.Status))
	}
	return nil
}
