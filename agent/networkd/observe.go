package networkd

import (
	"cmp"
	"io/fs"
	"net"
	"path"
	"slices"
	"strconv"

	"github.com/loam-os/loam/firmware/osrelease"
)

// StateFile exists once networkd knows the interfaces. It changes only with the
// state of the machine as a whole, and is written before the files of the
// interfaces: watch StateDirs for those.
const StateFile = "/run/systemd/netif/state"

const (
	linksDir  = "run/systemd/netif/links"
	leasesDir = "run/systemd/netif/leases"
)

// StateDirs are the directories in which networkd keeps a file for each
// interface, of its state and of its DHCP lease. It replaces a file only when
// its content changes (conservative_rename in src/basic/fs-util.c of systemd).
var StateDirs = []string{"/" + linksDir, "/" + leasesDir}

// Link is an interface that networkd looks after; the words are
// networkctl(1)'s.
type Link struct {
	Index int
	Name  string

	// File is the name of the file that applies to it.
	File string

	// Admin is how far networkd is with it, Oper what it is good for, Carrier
	// whether anything is at its other end.
	Admin, Oper, Carrier string

	// Addresses are with the lengths of their prefixes, those of the link alone
	// left out.
	Addresses []string
}

// Observe reads what networkd says of the links beneath root; addressed tells
// name and addresses of an interface. What cannot be read is not there, or
// comes in a moment.
func Observe(root fs.FS, addressed func(index int) (string, []string)) []Link {
	entries, _ := fs.ReadDir(root, linksDir)
	var links []Link
	for _, e := range entries {
		index, err := strconv.Atoi(e.Name())
		text, readErr := fs.ReadFile(root, path.Join(linksDir, e.Name()))
		said := osrelease.Parse(text)
		if err != nil || readErr != nil || said["NETWORK_FILE"] == "" {
			continue // Not ours: a container's, or lo.
		}

		l := Link{
			Index:   index,
			File:    path.Base(said["NETWORK_FILE"]),
			Admin:   said["ADMIN_STATE"],
			Oper:    said["OPER_STATE"],
			Carrier: said["CARRIER_STATE"],
		}

		l.Name, l.Addresses = addressed(index)
		if l.Name != "" {
			links = append(links, l)
		}
	}

	slices.SortFunc(links, func(a, b Link) int { return cmp.Compare(a.Name, b.Name) })
	return links
}

// Addressed tells of an interface of this machine; "" if it is gone.
func Addressed(index int) (string, []string) {
	i, err := net.InterfaceByIndex(index)
	if err != nil {
		return "", nil
	}

	all, _ := i.Addrs() // It has none, then, or is gone.
	var addresses []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			addresses = append(addresses, n.String())
		}
	}

	return i.Name, addresses
}

// Hostnames are the names that DHCP servers give the node, of one interface
// after the other.
func Hostnames(root fs.FS) []string {
	entries, _ := fs.ReadDir(root, leasesDir)
	var names []string
	for _, e := range entries {
		text, _ := fs.ReadFile(root, path.Join(leasesDir, e.Name()))
		if name := osrelease.Parse(text)["HOSTNAME"]; name != "" {
			names = append(names, name)
		}
	}
	return names
}
