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
// overall state of the machine, and is written before the files of the
// interfaces; watch StateDirs for those.
const StateFile = "/run/systemd/netif/state"

const (
	linksDir  = "run/systemd/netif/links"
	leasesDir = "run/systemd/netif/leases"
)

// StateDirs are the directories in which networkd keeps a file for the state of
// each interface and for its DHCP lease. It replaces a file only when the
// content changes (conservative_rename in src/basic/fs-util.c of systemd).
var StateDirs = []string{"/" + linksDir, "/" + leasesDir}

// Link is an interface that networkd manages, in the words of networkctl(1).
type Link struct {
	Index int
	Name  string

	// File is the name of the file that configures it.
	File string

	// Admin is how far networkd has configured it, Oper its operational state,
	// Carrier whether it has a carrier.
	Admin, Oper, Carrier string

	// Addresses include the lengths of their prefixes. Link-local ones are left
	// out.
	Addresses []string
}

// Observe reads networkd's state of the links beneath root. addressed returns
// name and addresses of an interface. Files that cannot be read are skipped:
// they are gone, or not written yet.
func Observe(root fs.FS, addressed func(index int) (string, []string)) []Link {
	entries, _ := fs.ReadDir(root, linksDir)
	var links []Link
	for _, e := range entries {
		index, err := strconv.Atoi(e.Name())
		text, readErr := fs.ReadFile(root, path.Join(linksDir, e.Name()))
		values := osrelease.Parse(text)
		if err != nil || readErr != nil || values["NETWORK_FILE"] == "" {
			continue // Not Loam's: a container's, or lo.
		}

		l := Link{
			Index:   index,
			File:    path.Base(values["NETWORK_FILE"]),
			Admin:   values["ADMIN_STATE"],
			Oper:    values["OPER_STATE"],
			Carrier: values["CARRIER_STATE"],
		}

		l.Name, l.Addresses = addressed(index)
		if l.Name != "" {
			links = append(links, l)
		}
	}

	slices.SortFunc(links, func(a, b Link) int { return cmp.Compare(a.Name, b.Name) })
	return links
}

// Addressed returns the name and addresses of an interface of this machine; ""
// if it is gone.
func Addressed(index int) (string, []string) {
	i, err := net.InterfaceByIndex(index)
	if err != nil {
		return "", nil
	}

	all, _ := i.Addrs() // It has no addresses, or is gone.
	var addresses []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLinkLocalUnicast() {
			addresses = append(addresses, n.String())
		}
	}

	return i.Name, addresses
}

// Hostnames returns the names that DHCP servers give the node, ordered by
// interface.
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
