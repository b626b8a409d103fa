package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/loam-os/loam/hint/fault"
)

// ProxyAnswer is an error: a proxy does not make a connection, and says so with the
// status Code of HTTP (RFC 9110, section 9.3.6).
type ProxyAnswer struct {
	// Host is the host and port of the server.
	Host string
	Code int
}

// CheckProxy is for [http.Transport.OnProxyConnectResponse], without which an error
// is no more than the text of the status.
func CheckProxy(_ context.Context, _ *url.URL, request *http.Request, r *http.Response) error {
	if r.StatusCode == http.StatusOK {
		return nil
	}
	return &ProxyAnswer{Host: request.Host, Code: r.StatusCode}
}

// isOfProxy reports whether a response is a proxy's own, and the server was not asked:
// a request without TLS goes to the proxy itself. 407 is no answer of a server (RFC
// 9110, section 15.5.8); proxies mark others with Proxy-Status (RFC 9209), and Squid
// with a field of its own.
func isOfProxy(r *http.Response) bool {
	switch code := r.StatusCode; {
	case code == http.StatusProxyAuthRequired:
		return true
	case code == http.StatusForbidden, code >= http.StatusInternalServerError:
		return r.Header.Get("X-Squid-Error") != "" ||
			strings.Contains(r.Header.Get("Proxy-Status"), "error=")
	}
	return false
}

// AtProxy returns why the connection to a proxy failed, nil if err is another error.
func AtProxy(err error) error {
	op, is := errors.AsType[*net.OpError](err)
	if !is || op.Op != "proxyconnect" { // As net/http calls it.
		return nil
	}
	return op.Err
}

func (p *ProxyAnswer) Error() string {
	status := fmt.Sprintf("it answers %d %s", p.Code, http.StatusText(p.Code))
	switch p.Code {
	case http.StatusForbidden:
		return "the proxy does not allow connections to " + p.Host + ": " + status
	case http.StatusProxyAuthRequired:
		return "the proxy wants a user and a password, or others: " + status
	}
	return "the proxy does not connect to " + p.Host + ": " + status
}

// FaultCode implements [fault.Coder].
func (p *ProxyAnswer) FaultCode() fault.Code {
	if p.Code < http.StatusInternalServerError {
		return fault.ProxyRefuses
	}
	return fault.ServerUnreachable
}

// Hints implements [hint.Hinted].
func (p *ProxyAnswer) Hints() []string {
	switch {
	case p.Code == http.StatusProxyAuthRequired:
		return []string{"write them into the URL of the proxy, http://USER:PASSWORD@HOST:PORT: " +
			"proxy.url in machine.yaml, or HTTPS_PROXY beside loamctl"}
	case p.FaultCode() == fault.ProxyRefuses:
		return []string{"have the proxy allow it, or leave the server out: noProxy in machine.yaml, " +
			"or NO_PROXY beside loamctl"}
	}
	return []string{"check that the server runs, and that the proxy reaches it"}
}
