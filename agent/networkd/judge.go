package networkd

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/network"
	"github.com/loam-os/loam/agent/status"
)

// Judge returns the state of the links, and the problems of the links that f
// configures.
func Judge(f network.Files, links []Link) status.Network {
	var s status.Network
	for _, l := range links {
		s.Interfaces = append(s.Interfaces, status.Interface{
			Name:      l.Name,
			As:        network.NameOf(l.File),
			State:     l.Oper,
			Addresses: l.Addresses,
		})
		if problem := l.problem(); problem != "" {
			s.Problems = append(s.Problems, called(l)+": "+problem)
		}
	}

	for _, name := range slices.Sorted(maps.Keys(f)) {
		is := func(l Link) bool { return l.File == name }
		if path.Ext(name) == ".network" && f[name] != "" && !slices.ContainsFunc(links, is) {
			s.Problems = append(s.Problems, missing(f, name))
		}
	}

	return s
}

// called returns the name of a link, with its name in machine.yaml.
func called(l Link) string {
	if as := network.NameOf(l.File); as != "" && as != l.Name {
		return l.Name + " (" + as + ")"
	}
	return l.Name
}

func (l Link) problem() string {
	switch {
	case l.Admin == "failed":
		return "systemd-networkd could not set it up (`loam logs systemd-networkd`)"
	case l.Carrier == "no-carrier":
		return "no carrier: nothing is at the other end, or it is off"
	case l.Carrier == "degraded-carrier":
		return "not all that it is made of has a carrier"
	case l.Carrier == "off":
		return "it is down"
	case l.Admin == "configuring" && l.Oper != "routable" && l.Oper != "enslaved" &&
		len(l.Addresses) == 0:
		return "it has no address yet"
	}
	return ""
}

func missing(f network.Files, name string) string {
	as := network.NameOf(name)
	if _, made := f[strings.TrimSuffix(name, ".network")+".netdev"]; made {
		return as + ": it could not be made (`loam logs systemd-networkd`)"
	}
	return fmt.Sprintf("%s: this machine has no such NIC, or another entry means it: %s",
		as, network.MatchOf(f[name]))
}
