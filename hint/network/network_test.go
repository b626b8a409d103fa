package network_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
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

// through returns a client that has to use a proxy.
func through(t *testing.T, proxy string) *http.Client {
	t.Helper()
	u, err := url.Parse(proxy)
	if err != nil {
		t.Fatal(err)
	}
	return &http.Client{Transport: network.RoundTripper{RoundTripper: &http.Transport{
		Proxy:                  http.ProxyURL(u),
		OnProxyConnectResponse: network.CheckProxy,
	}}}
}

// The server was not asked, so the error is not about it.
func TestAProxyThatCannotBeReached(t *testing.T) {
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer secure.Close()

	for _, row := range []struct {
		name, proxy string
		code        fault.Code
	}{
		{"it is down", closed.URL, fault.ServerUnreachable},
		{"it has another certificate", secure.URL, fault.CertificateNotTrusted},
		{"its name has no address", "http://proxy.invalid:3128", fault.NameNotFound},
	} {
		for _, scheme := range []string{"http", "https"} {
			t.Run(row.name+", "+scheme, func(t *testing.T) {
				client := through(t, row.proxy)
				if row.code == fault.NameNotFound {
					inner := client.Transport.(network.RoundTripper).RoundTripper.(*http.Transport)
					inner.DialContext = func(context.Context, string, string) (net.Conn, error) {
						return nil, &net.DNSError{Err: "no such host", Name: "proxy.invalid", IsNotFound: true}
					}
				}

				_, err := client.Get(scheme + "://releases.site.example/a")
				if err == nil || !strings.Contains(err.Error(), ": connect to the proxy: ") {
					t.Errorf("error %v", err)
				}
				code := fault.Of(err)
				if code != row.code || !strings.Contains(hint.Of(err), "is the proxy running") {
					t.Errorf("code %s, hint %q", code, hint.Of(err))
				}
			})
		}
	}
}

func TestAnAnswerOfAProxyInPlaceOfTheServers(t *testing.T) {
	for _, row := range []struct {
		name   string
		code   int
		header [2]string
		want   fault.Code // "" if it is the server's.
	}{
		{
			"it wants a password",
			http.StatusProxyAuthRequired,
			[2]string{"Proxy-Authenticate", "Basic realm=squid"},
			fault.ProxyRefuses,
		},
		{
			"Squid denies the server",
			http.StatusForbidden,
			[2]string{"X-Squid-Error", "ERR_ACCESS_DENIED 0"},
			fault.ProxyRefuses,
		},
		{
			"another proxy denies the server",
			http.StatusForbidden,
			[2]string{"Proxy-Status", "proxy.site.example; error=http_request_denied"},
			fault.ProxyRefuses,
		},
		{
			"Squid does not reach the server",
			http.StatusServiceUnavailable,
			[2]string{"X-Squid-Error", "ERR_CONNECT_FAIL 111"},
			fault.ServerUnreachable,
		},
		{
			"the server denies a file",
			http.StatusForbidden,
			[2]string{"Proxy-Status", "proxy.site.example; received-status=403"},
			"",
		},
		{
			"the server does not have a file",
			http.StatusNotFound,
			[2]string{"Via", "1.1 proxy (squid/6.6)"},
			"",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set(row.header[0], row.header[1])
				w.WriteHeader(row.code)
			}))
			defer proxy.Close()

			response, err := through(t, proxy.URL).Get("http://releases.site.example/a")
			if fault.Of(err) != row.want {
				t.Errorf("%v, code %s, want %q", err, fault.Of(err), row.want)
			}
			switch {
			case err == nil:
				response.Body.Close()
			case !strings.Contains(err.Error(), fmt.Sprint(row.code)) || hint.Of(err) == "":
				t.Errorf("%v, hint %q", err, hint.Of(err))
			}
		})
	}
}

func TestWithoutLocal(t *testing.T) {
	const text = "read tcp 10.0.0.4:51234->10.0.0.9:443: connection reset by peer"
	const want = "read tcp 10.0.0.9:443: connection reset by peer"
	if got := network.WithoutLocal(text); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
