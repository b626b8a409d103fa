package pki

import (
	"crypto/x509"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// Lifetimes. A leaf is renewed at two thirds of its time.
const (
	day           = 24 * time.Hour
	authorityTime = 25 * 365 * day
	leafTime      = 365 * day
	renewBefore   = leafTime / 3
)

// Renewal is a leaf that must be issued, and why.
type Renewal struct {
	Leaf Leaf
	Why  string
}

// Due returns the leaves to issue, in the order of want. have has the
// certificates by the names of the leaves; a missing one is due. authorities has
// the certificates of the authorities by their names.
func Due(
	now time.Time, have map[string]*x509.Certificate, want []Leaf,
	authorities map[string]*x509.Certificate,
) []Renewal {
	var due []Renewal
	for _, leaf := range want {
		if why := whyDue(now, have[leaf.Name], leaf, authorities[leaf.Authority]); why != "" {
			due = append(due, Renewal{leaf, why})
		}
	}
	return due
}

// RenewalTime returns when a leaf of usual lifetime becomes due.
func RenewalTime(cert *x509.Certificate) time.Time { return cert.NotAfter.Add(-renewBefore) }

// whyDue returns why a leaf must be issued, "" if it need not.
func whyDue(now time.Time, cert *x509.Certificate, leaf Leaf, authority *x509.Certificate) string {
	switch {
	case cert == nil:
		return "there is no certificate"
	case now.Before(cert.NotBefore):
		return "it is not valid before " + cert.NotBefore.Format(time.DateOnly)
	case !now.Before(cert.NotAfter):
		return "it expired on " + cert.NotAfter.Format(time.DateOnly)
	case cert.NotAfter.Sub(now) <= renewBefore:
		return "it expires on " + cert.NotAfter.Format(time.DateOnly)
	case cert.CheckSignatureFrom(authority) != nil:
		return "another authority issued it"
	case cert.Subject.CommonName != leaf.User ||
		!isSameSet(cert.Subject.Organization, leaf.Groups):
		return fmt.Sprintf("it is for %s", cert.Subject)
	case !isSameSet(cert.DNSNames, leaf.Names) || !isSameSet(addressesOf(cert), leaf.Addresses):
		return fmt.Sprintf("it has the names %v %v", cert.DNSNames, cert.IPAddresses)
	case !isSameSet(cert.ExtKeyUsage, leaf.usage()):
		return "it is for another use"
	}
	return ""
}

// usage returns what the certificate of a leaf may be used for.
func (l Leaf) usage() []x509.ExtKeyUsage {
	var usage []x509.ExtKeyUsage
	if l.Client {
		usage = append(usage, x509.ExtKeyUsageClientAuth)
	}
	if l.Server {
		usage = append(usage, x509.ExtKeyUsageServerAuth)
	}
	return usage
}

func addressesOf(cert *x509.Certificate) []netip.Addr {
	var addresses []netip.Addr
	for _, ip := range cert.IPAddresses {
		address, _ := netip.AddrFromSlice(ip)
		addresses = append(addresses, address.Unmap())
	}
	return addresses
}

// isSameSet reports whether a and b have the same elements.
func isSameSet[E comparable](a, b []E) bool {
	within := func(some, all []E) bool {
		return !slices.ContainsFunc(some, func(e E) bool { return !slices.Contains(all, e) })
	}
	return within(a, b) && within(b, a)
}
