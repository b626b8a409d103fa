package plane

import (
	"fmt"
	"net/netip"

	"github.com/loam-os/loam/agent/document"
)

// Sizes of networks. The controller manager gives each node a /24 or a /64 of
// the pod network, and splits a network into at most 65,536 of them
// (k8s.io/kubernetes, pkg/controller/nodeipam/ipam/cidrset). The API server
// accepts at most 20 bits for services (cmd/kube-apiserver/app/options), of
// which the tenth address is the DNS server's.
const (
	nodeBits4, nodeBits6 = 24, 64
	maxNodeBits          = 16
	maxServiceBits       = 20
	minServiceBits       = 4
)

// reserved are networks that cannot be routed to pods or services.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("127.0.0.0/8"),
	netip.MustParsePrefix("169.254.0.0/16"),
	netip.MustParsePrefix("224.0.0.0/3"),
	netip.MustParsePrefix("::/16"),
	netip.MustParsePrefix("fe80::/10"),
	netip.MustParsePrefix("ff00::/8"),
}

// network is a network of the record, and its path there.
type network struct {
	at     string
	prefix netip.Prefix
}

// networks returns the networks of a record that was checked.
func (r Settings) networks() []network {
	var all []network
	for i, text := range r.Pods {
		all = append(all, network{fmt.Sprintf("pods[%d]", i), netip.MustParsePrefix(text)})
	}
	for i, text := range r.Services {
		all = append(all, network{fmt.Sprintf("services[%d]", i), netip.MustParsePrefix(text)})
	}
	return all
}

// checkNetworks reports networks that Kubernetes would refuse, or that overlap.
func checkNetworks(report place, r Settings) {
	pods := parseNetworks(report, "pods", r.Pods)
	services := parseNetworks(report, "services", r.Services)

	for _, n := range pods {
		checkPodSize(report, n)
	}
	for _, n := range services {
		checkServiceSize(report, n)
	}

	checkFamilies(report, pods, services)
	checkOverlaps(report, append(pods, services...))
}

// parseNetworks returns the valid networks of a list.
func parseNetworks(report place, field string, texts []string) []network {
	if len(texts) == 0 || len(texts) > 2 {
		report.Add(field, fmt.Sprintf("has %d networks", len(texts)),
			"write one, or one of IPv4 and one of IPv6")
	}

	var found []network
	for i, text := range texts {
		at := fmt.Sprintf("%s[%d]", field, i)
		prefix, err := netip.ParsePrefix(text)
		switch {
		case err != nil || prefix.Addr().Is4In6():
			report.Add(at, document.Quote(text)+" is not a network", "write one such as 10.244.0.0/16")
		case prefix.Masked() != prefix:
			report.Add(at, document.Quote(text)+" is an address in a network",
				"write the network: "+prefix.Masked().String())
		default:
			found = append(found, network{at, prefix})
		}
	}
	return found
}

// nodeBits returns the length of the prefix of one node's pod network.
func nodeBits(of netip.Prefix) int {
	if of.Addr().Is4() {
		return nodeBits4
	}
	return nodeBits6
}

func checkPodSize(report place, n network) {
	most := nodeBits(n.prefix)
	least := max(most-maxNodeBits, 0)
	switch bits := n.prefix.Bits(); {
	case bits > most:
		report.Addf(n.at, fmt.Sprintf("write a network of /%d or larger", most),
			"%s is too small: each node takes a /%d of it", n.prefix, most)
	case bits < least:
		report.Addf(n.at, fmt.Sprintf("write a network of /%d or smaller", least),
			"%s is too large: it has more than %d networks for nodes", n.prefix, 1<<maxNodeBits)
	}
}

func checkServiceSize(report place, n network) {
	length := n.prefix.Addr().BitLen()
	switch bits := length - n.prefix.Bits(); {
	case bits < minServiceBits:
		report.Addf(n.at, fmt.Sprintf("write a network of /%d or larger", length-minServiceBits),
			"%s is too small for the services of a cluster", n.prefix)
	case bits > maxServiceBits:
		report.Addf(n.at, fmt.Sprintf("write a network of /%d or smaller", length-maxServiceBits),
			"%s is too large for the services of a cluster", n.prefix)
	}
}

// checkFamilies reports lists that are not of the same families: a Service has
// an address of each family that its pods have.
func checkFamilies(report place, pods, services []network) {
	for _, list := range [][]network{pods, services} {
		if len(list) == 2 && isSameFamily(list[0], list[1]) {
			report.Add(list[1].at, "is of the same family as the network before it",
				"write one of IPv4 and one of IPv6, or only one")
			return
		}
	}

	for i := range min(len(pods), len(services)) {
		if !isSameFamily(pods[i], services[i]) {
			report.Add(services[i].at, "is of another family than "+pods[i].at,
				"write the families of pods and services in the same order")
			return
		}
	}

	if len(pods) != len(services) && len(pods) > 0 && len(services) > 0 {
		report.Add("services", "has other families than pods",
			"write a network of the same families in both")
	}
}

func isSameFamily(a, b network) bool { return a.prefix.Addr().Is4() == b.prefix.Addr().Is4() }

func checkOverlaps(report place, all []network) {
	for i, n := range all {
		for _, r := range reserved {
			if n.prefix.Overlaps(r) {
				report.Addf(n.at, "write a private network such as 10.244.0.0/16 or fd00:10:244::/56",
					"%s overlaps %s, which is never routed", n.prefix, r)
			}
		}

		for _, other := range all[:i] {
			if n.prefix.Overlaps(other.prefix) {
				report.Addf(n.at, "write networks that have no address in common",
					"%s overlaps %s of %s", n.prefix, other.prefix, other.at)
			}
		}
	}
}
