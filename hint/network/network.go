// Package network says of a failed request what was tried: to look up a name, to
// connect to an address, to agree on TLS, or to get an answer. [RoundTripper] is
// for any [http.Client], whose own error adds the URL.
package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"syscall"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// RoundTripper explains the errors of another one.
type RoundTripper struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (r RoundTripper) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := r.RoundTripper.RoundTrip(request)
	if err != nil {
		return response, Explain(err, request.URL)
	}

	if isOfProxy(response) {
		response.Body.Close()
		return nil, &ProxyAnswer{Host: request.URL.Host, Code: response.StatusCode}
	}
	return response, nil
}

// Explain says what was tried when a request for a URL failed, and what to do.
func Explain(err error, to *url.URL) error {
	name, _ := errors.AsType[*net.DNSError](err)
	op, _ := errors.AsType[*net.OpError](err)
	code := fault.Of(err)
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, new(*ProxyAnswer)):
		return err
	case AtProxy(err) != nil:
		return hint.With(fmt.Errorf("connect to the proxy: %w", err),
			"is the proxy running, and its address right? %s", fault.ProxyRefuses.Hint())
	case name != nil:
		return hint.With(fmt.Errorf("look up %s: %w", name.Name, err), "%s", code.Hint())
	case op != nil && op.Op == "dial":
		return hint.With(fmt.Errorf("connect to %s: %w", address(op, to), err), "%s", advice(err))
	case code == fault.CertificateNotTrusted, code == fault.CertificateExpired:
		return hint.With(fmt.Errorf("TLS with %s: %w", to.Host, err), "%s", code.Hint())
	}

	err = fmt.Errorf("answer of %s: %w", to.Host, err)
	return hint.With(fault.With(err, fault.ServerUnreachable),
		"is it the server that is meant, and does it speak %s? its log may say more", to.Scheme)
}

// address returns the address that was dialed, the URL's host if that is not known.
func address(op *net.OpError, to *url.URL) string {
	if op.Addr != nil {
		return op.Addr.String()
	}
	return to.Host
}

// advice returns what to do about a connection that cannot be made.
func advice(err error) string {
	if errors.Is(err, syscall.ECONNREFUSED) {
		return "nothing listens there: is the server running, and is the port right?"
	}
	return "is the machine running, and do the network and its firewalls let this one reach it?"
}

// local is this machine's own end of a connection in an error of package net, such as
// "read tcp 10.0.0.4:51234->10.0.0.9:443: connection reset by peer".
var local = regexp.MustCompile(`\S+:\d+->`)

// WithoutLocal returns the text of an error without this machine's own end of the
// connection. Its port differs each time: with it, a problem that stays would be news
// at each try.
func WithoutLocal(text string) string { return local.ReplaceAllString(text, "") }
