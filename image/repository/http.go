package repository

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/network"
	"github.com/loam-os/loam/image/repository/roots"
)

const (
	// stall is how long a server may send nothing: while it is connected to,
	// before its answer, and in it.
	stall = 15 * time.Second
	// slowest is how many bytes a body has to bring in each window, so that a
	// server which sends one now and then does not hold an update up for ever.
	// The slowest lines bring 16 KiB/s, by EDGE; a quarter of
	// that is left when others use it, too. As sizes are signed, it is a
	// deadline as well: 100 MiB take 7 hours at most.
	slowest      = 60 * 4096
	window       = time.Minute
	maxRedirects = 5
)

// httpStore is a directory of a web server.
type httpStore struct {
	base   *url.URL
	client doer
	// accept is what it wants, "" for anything.
	accept string
	// ranged wants a server that knows ranges.
	ranged bool
}

func openHTTP(base *url.URL, o options) (Store, error) {
	client, err := newClient(o)
	if err != nil {
		return nil, err
	}
	return &httpStore{base: base, client: client, ranged: o.mirror}, nil
}

func newClient(o options) (*http.Client, error) {
	trust, err := roots.Machine()
	if err != nil {
		trust = x509.NewCertPool() // no system has none, but an initramfs
	}

	if len(o.cas) > 0 && !trust.AppendCertsFromPEM(o.cas) {
		return nil, errors.New(
			"repository: certificate authorities: no certificate in the PEM text",
		)
	}

	transport := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		OnProxyConnectResponse: network.CheckProxy,
		DialContext:            (&net.Dialer{Timeout: stall}).DialContext,
		TLSClientConfig:        &tls.Config{RootCAs: trust, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    stall,
		ResponseHeaderTimeout:  stall,
		IdleConnTimeout:        stall,
		ForceAttemptHTTP2:      true,
		DisableCompression:     true, // a compressed range is not the range
	}

	return &http.Client{
		Transport:     network.RoundTripper{RoundTripper: stalling{transport}},
		CheckRedirect: o.redirect,
	}, nil
}

// redirect follows up to 5 redirects, and never leaves https, nor a mirror.
func (o options) redirect(req *http.Request, via []*http.Request) error {
	if o.mirror && req.URL.Host != via[0].URL.Host {
		return fmt.Errorf("redirect from %s to %s", via[0].URL.Host, req.URL.Host)
	}
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
	}
	if via[len(via)-1].URL.Scheme == "https" && req.URL.Scheme != "https" {
		return fmt.Errorf("redirect from https to %s", req.URL.Scheme)
	}
	return nil
}

func (s *httpStore) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}

	resp, err := s.do(ctx, name, "")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()

	if resp.StatusCode != http.StatusOK {
		return nil, fault.With(fmt.Errorf("%s: server answers %s", name, resp.Status),
			fault.RepositoryUnreachable)
	}

	if resp.ContentLength > limit {
		return nil, fmt.Errorf("%s: %d bytes: %w (%d bytes)",
			name, resp.ContentLength, ErrTooLarge, limit)
	}

	data, err := readAll(resp.Body, limit)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	return data, nil
}

// Range of a server that knows no ranges costs the bytes before it.
func (s *httpStore) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if err := checkRange(name, off, n); err != nil {
		return nil, err
	}

	resp, err := s.do(ctx, name, fmt.Sprintf("bytes=%d-%d", off, off+n-1))
	if err != nil {
		return nil, err
	}

	err = position(resp, off, n)
	if s.ranged && resp.StatusCode == http.StatusOK {
		err = errors.New("server knows no ranges")
	}

	if err != nil {
		resp.Body.Close()
		return nil, fmt.Errorf("%s: %d bytes at %d: %w", name, n, off, err)
	}

	return &exactly{resp.Body, n}, nil
}

// do asks for a file, or a range of it. The body ends when the server stalls,
// and with ctx.
func (s *httpStore) do(ctx context.Context, name, ranges string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base.JoinPath(name).String(), nil)
	if err != nil {
		return nil, err
	}

	req.Header.Set("Accept-Encoding", "identity")
	if s.accept != "" {
		req.Header.Set("Accept", s.accept)
	}
	if ranges != "" {
		req.Header.Set("Range", ranges)
	}

	resp, err := s.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, stalled(ctx, err))
	}

	if err := checkAnswer(resp); err != nil {
		resp.Body.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}

	return resp, nil
}

// stalled marks the timeouts of connecting and of waiting for an answer.
func stalled(ctx context.Context, err error) error {
	cause := err
	if request, is := errors.AsType[*url.Error](err); is {
		cause = request.Err // It does not know that what it wraps is a timeout.
	}
	var t net.Error
	if errors.As(cause, &t) && t.Timeout() && ctx.Err() == nil {
		return fmt.Errorf("%w: %w", ErrStalled, err)
	}
	return err
}
