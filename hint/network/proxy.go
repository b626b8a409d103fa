package network

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

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
