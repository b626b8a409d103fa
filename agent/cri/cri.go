package cri

import "path"

// Where containerd's files are on a node.
const (
	ConfigFile = "/etc/containerd/config.toml"
	HostsDir   = "/etc/containerd/certs.d"
	Unit       = "containerd.service"
	DropInName = "30-env_config.conf"
)

// DropIn makes containerd find the runtimes that extensions install. The rest
// of the value is the PATH of systemd's services (systemd.exec(5)).
const DropIn = "[Service]\n" +
	"Environment=PATH=/var/bin/containerruntimes:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin\n"

// Config is what config.toml says besides the image's own. An empty field keeps
// the image's.
type Config struct {
	SandboxImage string
	// CgroupDriver is "systemd" or "cgroupfs".
	CgroupDriver string
	// Plugins are applied last, in their order.
	Plugins []Plugin
}

// Plugin changes the table plugins at Path, which may have the names of schema
// 2. Values has the types of encoding/json: a map is merged, any other value
// replaces what is there.
type Plugin struct {
	Remove bool
	Path   []string
	Values any
}

// Registry lists the hosts for images of the registry Upstream: Hosts in their
// order, then Server.
type Registry struct {
	// Upstream is HOST[:PORT], or "_default" for all registries not listed.
	Upstream string
	// Server is a URL; "" means Upstream's.
	Server string
	Hosts  []Host
}

// Host is a mirror. Capabilities default to pull and resolve.
type Host struct {
	URL          string
	Capabilities []string
	// CACerts are files; relative paths start at the directory of hosts.toml.
	CACerts []string
	// OverridePath is set if the URL has the full path of the API.
	OverridePath bool
}

// File returns the path of the registry's hosts.toml. containerd reads it for
// each pull (containerd docs/hosts.md), so a change needs no restart.
func (r Registry) File() string { return path.Join(HostsDir, r.Upstream, "hosts.toml") }

// CACerts returns the certificate files of all hosts as absolute paths.
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
