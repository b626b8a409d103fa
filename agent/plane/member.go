package plane

import (
	"cmp"
	"fmt"
	"net/netip"
	"path"
	"time"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/plane/pki"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Member is a node with a control plane, as far as it differs from the others of
// its cluster.
type Member struct {
	// Name is the node's host name, which is the name of its Node, too.
	Name string

	// Address is the address under which pods and other nodes reach the API
	// server. It is of the family of the first service network, and not
	// loopback.
	Address netip.Addr

	// Programs is the directory with the programs of etcd and Kubernetes. Etcd is
	// another one with etcd, while only that is upgraded; Programs if empty.
	Programs, Etcd string

	// FsyncP99 is the 99th percentile of the time of a sync of etcd's disk, which
	// decides on the timing of etcd; 0 if it was not measured.
	FsyncP99 time.Duration

	// Keys are the keys and certificates of the cluster, with an absolute path.
	Keys pki.Files

	// EtcdCertificates changes with the certificates of etcd, which reads them
	// only when it starts.
	EtcdCertificates string
}

// program returns the path of a program.
func (m Member) program(name string) string { return path.Join(m.Programs, name) }

// etcdPrograms returns the directory with etcd.
func (m Member) etcdPrograms() string { return cmp.Or(m.Etcd, m.Programs) }

// etcd returns the path of etcd.
func (m Member) etcd() string { return path.Join(m.etcdPrograms(), etcd) }

// unspecified returns all addresses of the family of the node's address.
func (m Member) unspecified() netip.Addr {
	if m.Address.Is4() {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// check returns why the node cannot have a control plane of the cluster. The API
// server would refuse the address, or pods with the same address would hide the
// node.
func (m Member) check(r Record) error {
	refuse := func(advice, format string, args ...any) error {
		problem := fault.With(fmt.Errorf(format, args...), fault.CannotBeApplied)
		return hint.With(problem, "%s", advice)
	}

	if !m.Address.IsValid() || m.Address.IsLoopback() || m.Address.IsUnspecified() {
		return refuse("give the node an address under which pods reach it",
			"cluster %s: the address %s of this node is not one of a network", r.Name, m.Address)
	}
	if m.Address.Is4() != r.API().Is4() {
		return refuse("give the node an address of the family of the first network of services",
			"cluster %s: the address %s of this node is of another family than %s",
			r.Name, m.Address, r.Services[0])
	}

	return r.CheckAddress(m.Address)
}

// CheckAddress returns why an address of a node is against the networks of the
// cluster: one of them has it, and its field is the path of the error.
func (r Record) CheckAddress(address netip.Addr) error {
	for _, n := range r.networks() {
		if n.prefix.Contains(address) {
			return document.At(n.at, hint.With(
				fault.With(
					fmt.Errorf("cluster %s: the address %s of this node is in the network %s of the cluster",
						r.Name, address, n.prefix),
					fault.CannotBeApplied,
				),
				"choose networks for pods and services that the site does not use",
			))
		}
	}
	return nil
}

// Fits reports whether a node with that address can have a control plane of the
// cluster.
func (r Record) Fits(address netip.Addr) bool {
	return !address.IsLinkLocalUnicast() && Member{Address: address}.check(r) == nil
}

// Names returns the names that certificates of the node have.
func (r Record) Names(node string) pki.Names {
	names := pki.Names{Node: node, API: r.API()}
	for _, name := range r.CertificateNames {
		if address, err := netip.ParseAddr(name); err == nil {
			names.ExtraAddresses = append(names.ExtraAddresses, address.Unmap())
		} else {
			names.Extra = append(names.Extra, name)
		}
	}
	return names
}
