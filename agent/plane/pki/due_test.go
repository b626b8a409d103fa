package pki

import (
	"crypto/tls"
	"crypto/x509"
	"net/netip"
	"strings"
	"testing"
	"time"
)

var (
	built = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	names = Names{
		Node:           "node-1",
		API:            netip.MustParseAddr("10.96.0.1"),
		Extra:          []string{"api.example"},
		ExtraAddresses: []netip.Addr{netip.MustParseAddr("192.0.2.10")},
	}
)

func at(now time.Time) Times { return Times{Built: built, Now: now} }

func testAuthority(t *testing.T) Authority {
	t.Helper()
	cert, key, err := newAuthority("test", at(built))
	if err != nil {
		t.Fatal(err)
	}
	authority, err := parseAuthority(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	return authority
}

func issue(t *testing.T, a Authority, leaf Leaf, times Times) *x509.Certificate {
	t.Helper()
	text, err := a.Issue(leaf, times)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(text, text)
	if err != nil {
		t.Fatal(err)
	}
	return pair.Leaf
}

func TestReasonsForADueLeaf(t *testing.T) {
	ca := testAuthority(t)
	other := testAuthority(t)
	leaf := Leaf{
		Name:      "server",
		Authority: CA,
		User:      "server",
		Groups:    []string{"a", "b"},
		Names:     []string{"one", "two"},
		Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.IPv6Loopback()},
		Server:    true,
	}
	with := func(change func(*Leaf)) Leaf {
		changed := leaf
		change(&changed)
		return changed
	}
	fresh := issue(t, ca, leaf, at(built))

	for name, row := range map[string]struct {
		cert *x509.Certificate
		want Leaf
		now  time.Time
		why  string
	}{
		"a fresh one is not": {fresh, leaf, built, ""},
		"names in another order are the same": {
			fresh, with(func(l *Leaf) { l.Names = []string{"two", "one"} }), built, "",
		},
		"at two thirds minus a day it is not": {fresh, leaf, built.Add(leafTime*2/3 - day), ""},
		"at two thirds": {
			fresh, leaf, built.Add(leafTime * 2 / 3), "it expires on 2027-03-01",
		},
		"after its end": {
			fresh, leaf, built.Add(leafTime), "it expired on 2027-03-01",
		},
		"five years later": {
			fresh, leaf, built.AddDate(5, 0, 0), "it expired on 2027-03-01",
		},
		"before its beginning": {
			fresh, leaf, built.Add(-day), "it is not valid before 2026-03-01",
		},
		"no certificate": {nil, leaf, built, "there is no certificate"},
		"of another authority": {
			issue(t, other, leaf, at(built)), leaf, built, "another authority",
		},
		"for another user": {
			fresh, with(func(l *Leaf) { l.User = "x" }), built, "it is for CN=server",
		},
		"for other groups": {
			fresh, with(func(l *Leaf) { l.Groups = nil }), built, "it is for CN=server",
		},
		"a name more": {
			fresh,
			with(func(l *Leaf) { l.Names = []string{"one", "two", "three"} }),
			built,
			"it has the names",
		},
		"an address less": {
			fresh, with(func(l *Leaf) { l.Addresses = nil }), built, "it has the names",
		},
		"for a client as well": {
			fresh, with(func(l *Leaf) { l.Client = true }), built, "it is for another use",
		},
	} {
		t.Run(name, func(t *testing.T) {
			due := Due(row.now, map[string]*x509.Certificate{"server": row.cert}, []Leaf{row.want},
				map[string]*x509.Certificate{CA: ca.Certificate})
			why := ""
			if len(due) > 0 {
				why = due[0].Why
			}
			if (row.why == "") != (why == "") || !strings.HasPrefix(why, row.why) {
				t.Errorf("due because %q, want %q", why, row.why)
			}
		})
	}
}

// Only loopback, the Service and what the operator wrote are addresses.
func TestLeavesHaveNamesInsteadOfAddresses(t *testing.T) {
	for _, leaf := range Leaves(names) {
		for _, address := range leaf.Addresses {
			if !address.IsLoopback() && address != names.API &&
				address != names.ExtraAddresses[0] {
				t.Errorf("%s has %s", leaf.Name, address)
			}
		}
		if leaf.Server && len(leaf.Names) == 0 {
			t.Errorf("the server %s has no name", leaf.Name)
		}
	}
}
