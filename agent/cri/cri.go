// Package cri is the configuration of containerd as text: config.toml, made
// from the image's own each time, and a hosts.toml for each registry. All of it
// but Observe is pure.
package cri

import "path"

// Where containerd's files are on a node.
const (
	ConfigFile = "/etc/containerd/config.toml"
	HostsDir   = "/etc/containerd/certs.d"
	Unit       = "containerd.service"
	DropInName = "30-env_config.conf"
)

// DropIn lets containerd find the runtimes that extensions install. What
// follows them is the PATH of systemd's services (systemd.exec(5)).
const DropIn = "[Service]\n" +
	"Environment=PATH=/var/bin/containerruntimes:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin\n"

// Config is what config.toml is to say besides the image's own. An empty field
// leaves what the image says.
type Config struct {
	SandboxImage string
	// CgroupDriver is "systemd" or "cgroupfs".
	CgroupDriver string
	// Plugins are applied last, in their order.
	Plugins []Plugin
}

// Plugin changes the table plugins at Path, whose names may be those of schema
// 2. Values is of the JSON types: a map is merged, anything else replaces.
type Plugin struct {
	Remove bool
	Path   []string
	Values any
}

// Registry says where images of the registry Upstream come from: Hosts in their
// order, then Server.
type Registry struct {
	// Upstream is HOST[:PORT], or "_default" for those not listed.
	Upstream string
	// Server is a URL; "" is Upstream's.
	Server string
	Hosts  []Host
}

// Host is one mirror. No Capabilities are pull and resolve.
type Host struct {
	URL          string
	Capabilities []string
	// CACerts are files, relative ones to the directory of the hosts.toml.
	CACerts []string
	// OverridePath is set where the URL has the whole path of the API.
	OverridePath bool
}

// File is the path of the registry's hosts.toml. containerd reads it for each
// pull (containerd docs/hosts.md), so a change restarts nothing.
func (r Registry) File() string { return path.Join(HostsDir, r.Upstream, "hosts.toml") }

// CACerts are the files of all hosts, absolute.
func (r Registry) CACerts() []string {
	var files []string
	for _, host := range r.Hosts {
		for _, file := range host.CACerts {
			if !path.IsAbs(file) {
				file = path.Join(HostsDir, r.Upstream, file)
			}
			files = append(files, file)
		}
	}
	return files
}
