// Package probe checks that a registry answers before the container runtime
// uses it.
//
// A registry with a readiness probe gets its hosts.toml when its mirrors
// answer.
package probe

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/hint/network"
	"github.com/loam-os/loam/image/repository/roots"
)

// timeout is for one URL, including connecting.
const timeout = time.Second

// Reach requests every URL of probe once and returns an error for all that do
// not answer. Any HTTP response is an answer, whatever its status.
func Reach(ctx context.Context, probe config.Probe) error {
	authorities, err := trusted(probe.CACerts)
	if err != nil {
		return err
	}

	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		OnProxyConnectResponse: network.CheckProxy,
		TLSClientConfig:        &tls.Config{RootCAs: authorities},
		DisableKeepAlives:      true,
	}
	defer transport.CloseIdleConnections()
	client := &http.Client{
		Transport: transport,
		CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse
		},
	}

	var errs []error
	for _, url := range probe.URLs {
		errs = append(errs, reach(ctx, client, url))
	}

	return errors.Join(errs...)
}

// trusted returns the machine's certificate authorities and those in files.
func trusted(files []string) (*x509.CertPool, error) {
	pool, err := roots.Machine()
	if err != nil {
		return nil, err
	}

	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("read certificate authority: %w", err)
		}
		if !pool.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s: has no certificate in PEM", file)
		}
	}
	return pool, nil
}

func reach(ctx context.Context, client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("reach registry: %w", err)
	}

	response, err := client.Do(request) // The error names method and URL.
	if err != nil {
		return fmt.Errorf("reach registry: %w", err)
	}

	return response.Body.Close()
}
