package local

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
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
