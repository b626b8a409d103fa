package network_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/network"
)

func TestErrorSaysWhatWasTried(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = nil
	defer secure.Close()
	rude := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	defer rude.Close()

	host := func(s *httptest.Server) string { return s.Listener.Addr().String() }
	for _, row := range []struct {
		name, url, text, hint string
		code                  fault.Code
	}{
		{
			"nothing listens",
			closed.URL,
			"connect to " + host(closed) + ": ",
			"is the server running",
			fault.ServerUnreachable,
		},
		{
			"no such name",
			"http://nowhere.invalid/a",
			"look up nowhere.invalid: ",
			"check the spelling",
			fault.NameNotFound,
		},
		{
			"an unknown authority",
			secure.URL,
			"TLS with " + host(secure) + ": ",
			"authority",
			fault.CertificateNotTrusted,
		},
		{
			"no answer",
			rude.URL,
			"answer of " + host(rude) + ": ",
			"does it speak http?",
			fault.ServerUnreachable,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			client := http.Client{Transport: network.RoundTripper{RoundTripper: transport()}}
			_, err := client.Get(row.url)
			if err == nil || !strings.Contains(err.Error(), row.text) ||
				!strings.Contains(err.Error(), row.url) {
				t.Errorf("error %v, want %q", err, row.text)
			}

			code := fault.Of(err)
			if code != row.code || !strings.Contains(hint.Of(err), row.hint) {
				t.Errorf("code %s, hint %q", code, hint.Of(err))
			}
		})
	}
}

// transport answers each lookup of a name as if the name did not exist.
func transport() *http.Transport {
	return &http.Transport{DialContext: func(
		ctx context.Context, kind, address string,
	) (net.Conn, error) {
		if strings.HasPrefix(address, "nowhere.invalid") {
			missing := &net.DNSError{Err: "no such host", Name: "nowhere.invalid", IsNotFound: true}
			return nil, &net.OpError{Op: "dial", Net: kind, Err: missing}
		}
		return new(net.Dialer).DialContext(ctx, kind, address)
	}}
}

func TestInterruptedRequestIsNotExplained(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://192.0.2.1/", nil)
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: network.RoundTripper{RoundTripper: transport()}}
	_, err = client.Do(request)
	if !errors.Is(err, context.Canceled) || hint.Of(err) != "" {
		t.Errorf("error %v, hint %q", err, hint.Of(err))
	}
}

// A proxy's answer is said as it is: the server has not answered.
func TestAProxyThatRefuses(t *testing.T) {
	err := network.Explain(&network.ProxyAnswer{Host: "host:443", Code: http.StatusForbidden},
		&url.URL{Scheme: "https", Host: "host"})
	const want = "the proxy does not allow connections to host:443: it answers 403 Forbidden"
	if err.Error() != want || fault.Of(err) != fault.ProxyRefuses || hint.Of(err) == "" {
		t.Errorf("%v, %s, %s", err, fault.Of(err), hint.Of(err))
	}
}
