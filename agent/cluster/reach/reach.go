// Package reach says why a node does not get what it wants from an API server.
//
//	error of a request ---+
//	                      +--> Explain --> Problem: text, tried, hint, code
//	Attempt: server, who, +
//	clock, network        |
//
// An error of the Go library says which call failed. Somebody in front of a
// console, or with nothing but the log of a serial line, needs to know who has
// to do something: name servers, routes, the server, certificates, a clock, a
// token, whoever approves. So each has a sentence and a code of its own, and
// beside it is what the node has tried, and from where.
package reach

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/network"
)

// Attempt is a request as the node has made it.
type Attempt struct {
	// Server is the URL of the API server. As is as whom the node has asked, such
	// as "its certificate".
	Server string
	As     string

	// Now is the node's clock.
	Now time.Time

	Network Network
}

// Network is the network of a node while it makes a request.
type Network struct {
	// Links are the interfaces, DNS the addresses of the name servers.
	Links []Link
	DNS   []string
}

// Link is an interface. State is in the words of networkctl(1), Addresses are
// with the length of their prefix.
type Link struct {
	Name      string
	State     string
	Addresses []string
}

// Problem is why a request failed; zero if it did not.
type Problem struct {
	// Text is a sentence. Tried is what the node has tried, "" if it is about no
	// request. Hint is what to do, "" if unknown, and Code the problem for
	// programs, "" if it has none.
	Text, Tried, Hint string
	Code              fault.Code
}

// untried is an error before any request.
type untried struct{ error }

// Unwrap returns the error.
func (u untried) Unwrap() error { return u.error }

// Untried marks an error because of which the node made no request; it returns nil
// for nil.
func Untried(err error) error {
	if err == nil {
		return nil
	}
	return untried{err}
}

// IsUntried reports whether the node made no request because of err.
func IsUntried(err error) bool { return errors.As(err, new(untried)) }

// Explain returns why a request has ended with err. The text of an error that
// has a code stays as it is. The text is the same for the same cause, so that
// another one is news; what varies from try to try is in Tried.
func Explain(err error, a Attempt) Problem {
	if err == nil {
		return Problem{}
	}

	p := a.problem(err)
	if !IsUntried(err) {
		p.Tried = line(a.tried(err))
	}
	p.Text = line(cmp.Or(p.Text, err.Error()))
	p.Code = cmp.Or(p.Code, fault.Of(err))
	p.Hint = cmp.Or(hint.Of(err), p.Hint, p.Code.Hint())
	return p
}

// maxText is how long a text is at most, in bytes. An answer may be of any length.
const maxText = 500

// line returns a text, which may be a server's, as it is shown.
func line(text string) string { return printable.Line(text, maxText) }

// problem returns what is known of err; its fields are "" where the error itself
// says it well.
func (a Attempt) problem(err error) Problem {
	if proxy, is := errors.AsType[*network.ProxyAnswer](err); is {
		return Problem{Text: proxy.Error(), Code: proxy.FaultCode()}
	}

	coder := fault.Coder(nil)
	if errors.As(err, &coder) {
		return Problem{}
	}

	answer := apierrors.APIStatus(nil)
	if errors.As(err, &answer) {
		return a.ofAnswer(answer, apierrors.IsUnexpectedServerError(err))
	}
	if dns, is := errors.AsType[*net.DNSError](err); is {
		return a.ofName(dns)
	}
	if failed := network.AtProxy(err); failed != nil {
		return Problem{
			Text: "the proxy does not connect: " + cause(failed),
			Hint: "see proxy in machine.yaml; noProxy leaves out servers of the own network",
			Code: fault.ServerUnreachable,
		}
	}
	if p, is := a.ofCertificate(err); is {
		return p
	}
	return a.ofConnection(err)
}

// ofAnswer explains what the API server itself says, or something before it: that
// has a page in place of a Status, which may be another one each time.
func (a Attempt) ofAnswer(answer apierrors.APIStatus, isPage bool) Problem {
	s := answer.Status()
	said := fmt.Sprintf("%d %s", s.Code, http.StatusText(int(s.Code)))
	switch {
	case s.Code == http.StatusForbidden && isPage:
		return Problem{
			Text: fmt.Sprintf("%s answers %s, but not as an API server does", a.host(), said),
			Hint: "check the server in machine.yaml, and what is on the way to it: a load " +
				"balancer, or a proxy",
			Code: fault.ClusterRefuses,
		}
	case s.Code == http.StatusForbidden:
		return Problem{
			Hint: "give the node that right: the roles of the cluster, or of bootstrap tokens, " +
				"do not have it",
			Code: fault.ClusterRefuses,
		}
	case s.Code == http.StatusTooManyRequests, s.Code >= http.StatusInternalServerError:
		if !isPage {
			said += ": " + s.Message
		}
		return Problem{
			Text: "the API server answers " + said,
			Hint: "the log of the API server says more; the node tries again by itself",
			Code: fault.ServerUnreachable,
		}
	case s.Code == http.StatusUnauthorized:
		return Problem{
			Text: "the API server does not accept " + cmp.Or(a.As, "the node"),
			Code: fault.CertificateRefused,
		}
	}
	return Problem{Code: fault.ClusterRefuses}
}

// ofName explains why a name has no address. Without a name server in
// resolv.conf(5), the resolver asks this machine.
func (a Attempt) ofName(err *net.DNSError) Problem {
	p := Problem{Code: fault.NameNotFound}
	server := strings.Join(a.Network.DNS, ", ")
	if asked, _, err := net.SplitHostPort(err.Server); err == nil {
		server = asked
	}

	switch {
	case len(a.Network.DNS) == 0:
		p.Text = err.Name + " cannot be looked up: the node has no name server"
		p.Hint = "give the network dns: in machine.yaml, or let DHCP say one"
	case err.IsNotFound:
		p.Text = fmt.Sprintf("the name server %s knows no address of %s", server, err.Name)
		p.Hint = "check the spelling of the server, and which name servers the network has"
	default:
		p.Text = fmt.Sprintf("the name server %s does not say the address of %s: %s",
			server, err.Name, err.Err)
		p.Hint = "check that the name server runs, and the firewalls on the way"
	}
	return p
}

// ofCertificate explains what is wrong with the certificate of the server.
func (a Attempt) ofCertificate(err error) (Problem, bool) {
	if invalid, is := errors.AsType[x509.CertificateInvalidError](err); is {
		return a.ofValidity(invalid)
	}

	if unknown, is := errors.AsType[x509.UnknownAuthorityError](err); is {
		issuer := ""
		if unknown.Cert != nil {
			issuer = fmt.Sprintf(", %q,", unknown.Cert.Issuer.String())
		}
		return Problem{
			Text: fmt.Sprintf("the certificate of %s is of an authority%s that this node does not "+
				"trust", a.host(), issuer),
			Hint: "the node trusts `ca` in machine.yaml: give it the authority of this cluster, " +
				"or find out who answers at that address",
			Code: fault.CertificateNotTrusted,
		}, true
	}

	if host, is := errors.AsType[x509.HostnameError](err); is {
		return Problem{
			Text: fmt.Sprintf("the certificate of %s is for another name: %s", a.host(), host.Error()),
			Hint: "name the server in machine.yaml as its certificate does",
			Code: fault.CertificateNotTrusted,
		}, true
	}

	return Problem{}, false
}

// ofValidity explains a certificate that is not valid now. One that begins later
// says that the clock is behind: nobody makes certificates for later.
func (a Attempt) ofValidity(err x509.CertificateInvalidError) (Problem, bool) {
	if err.Reason != x509.Expired || err.Cert == nil {
		return Problem{}, false
	}

	p := Problem{Code: fault.CertificateExpired, Hint: ClockHint(a.Now)}
	const layout = "2006-01-02 15:04 MST"
	if a.Now.Before(err.Cert.NotBefore) {
		p.Code = fault.ClockDoubtful
		p.Text = fmt.Sprintf("the certificate of %s is not yet valid: it begins at %s, and the clock "+
			"of this node is before that", a.host(), err.Cert.NotBefore.UTC().Format(layout))
		return p, true
	}
	p.Text = fmt.Sprintf("the certificate of %s has expired at %s",
		a.host(), err.Cert.NotAfter.UTC().Format(layout))
	return p, true
}

// ClockHint is the hint for a certificate that is not valid at now.
func ClockHint(now time.Time) string {
	return fmt.Sprintf("this node's clock says %s; `timedatectl` shows whether it is set",
		now.UTC().Format("2006-01-02 15:04 MST"))
}

// ofConnection explains why there is no connection to the server, or none with
// TLS.
func (a Attempt) ofConnection(err error) Problem {
	address := a.host()
	timeout := net.Error(nil)
	code := fault.Of(err)
	if isNotTLS(err) {
		code = fault.TLSFailed
	}

	switch {
	case code == fault.NoRoute:
		return Problem{
			Text: address + " cannot be reached: " + a.Network.missing(),
			Code: code,
		}
	case code == fault.TLSFailed:
		return Problem{
			Text: address + " does not speak TLS as an API server does: " + cause(err),
			Code: code,
		}
	case errors.Is(err, syscall.ECONNREFUSED):
		return Problem{
			Text: address + " refuses the connection: nothing listens there",
			Hint: "check that the API server runs, and its port",
			Code: fault.ServerUnreachable,
		}
	case errors.As(err, &timeout) && timeout.Timeout():
		return Problem{
			Text: address + " does not answer",
			Hint: "check that the machine is up, and the firewalls on the way",
			Code: fault.ServerUnreachable,
		}
	case code == fault.ServerUnreachable:
		return Problem{Text: address + " ends the connection: " + cause(err), Code: code}
	}
	return Problem{}
}

// isNotTLS reports whether what answers does not speak TLS at all.
func isNotTLS(err error) bool {
	_, record := errors.AsType[tls.RecordHeaderError](err)
	return record || errors.Is(err, http.ErrSchemeMismatch)
}

// cause returns the text of an error without what made the request, and without
// the port of the node, which is another one each time.
func cause(err error) string {
	if op, is := errors.AsType[*net.OpError](err); is {
		return op.Err.Error()
	}
	if request, is := errors.AsType[*url.Error](err); is {
		return request.Err.Error()
	}
	return err.Error()
}

// host returns host and port of the server.
func (a Attempt) host() string {
	u, err := url.Parse(a.Server)
	if err != nil || u.Host == "" {
		return a.Server
	}
	return u.Host
}

// tried says what the node has tried. A name may have several addresses.
func (a Attempt) tried(err error) string {
	said := a.host()
	if op, is := errors.AsType[*net.OpError](err); is && op.Addr != nil && op.Addr.String() != said {
		said += " at " + op.Addr.String()
	}
	if a.As != "" {
		said += " with " + a.As
	}
	said += ", from " + a.Network.text()
	if len(a.Network.DNS) > 0 {
		said += ", name server " + strings.Join(a.Network.DNS, ", ")
	}
	return said
}

// missing says what a network has not that has no route.
func (n Network) missing() string {
	for _, l := range n.Links {
		if len(l.Addresses) > 0 {
			return "no route leads there"
		}
	}
	return "no interface has an address"
}

// text returns the interfaces that have addresses, or all of them if none has.
func (n Network) text() string {
	var with, without []string
	for _, l := range n.Links {
		if len(l.Addresses) > 0 {
			with = append(with, l.Name+" "+strings.Join(l.Addresses, " "))
		} else {
			without = append(without, strings.TrimSpace(l.Name+" "+l.State)+", without an address")
		}
	}

	switch {
	case len(with) > 0:
		return strings.Join(with, ", ")
	case len(without) > 0:
		return strings.Join(without, ", ")
	}
	return "no interface"
}
