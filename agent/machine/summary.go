package machine

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/plane"
)

// Summary says what a node with this document does, in two lines: who it is and
// where its configuration comes from; what happens to its disks and its system.
// The document must be valid.
func (m Machine) Summary() [2]string {
	identity := []string{m.name(), m.network(), m.configuration()}
	if n := len(m.Trust.Keys); n > 0 {
		identity = append(identity,
			fmt.Sprintf("takes only signed documents afterwards (trusted keys: %d)", n))
	}
	if u, err := url.Parse(m.Proxy.URL); err == nil && u.Host != "" {
		identity = append(identity, "fetches by proxy "+u.Host)
	}
	if n := len(m.Images.Keys); n > 0 {
		identity = append(identity, fmt.Sprintf("takes only signed images (keys: %d)", n))
	}

	return [2]string{
		strings.Join(identity, "; "),
		strings.Join(slices.Concat(
			[]string{m.disks(), m.Upgrade.summary(), m.shells()}, m.opens()), "; "),
	}
}

func (m Machine) name() string {
	switch {
	case m.Hostname != "":
		return "host name " + m.Hostname
	case m.HostnameFrom != "":
		return "host name from " + m.HostnameFrom
	}
	return "host name of its drive or image"
}

func (m Machine) network() string {
	if m.Network.IsZero() {
		return "DHCP on every wired interface"
	}

	var names []string
	for _, one := range m.Network.Interfaces {
		names = append(names, one.Name)
	}
	return "network of " + strings.Join(names, ", ")
}

func (m Machine) configuration() string {
	if m.Cluster.Init == nil {
		return m.Source.summary()
	}
	return fmt.Sprintf("is the first node of its own cluster, %s",
		plane.NewRecord(*m.Cluster.Init).Name)
}

func (s Source) summary() string {
	switch {
	case s.File != nil:
		return "configuration from the file " + s.File.Path
	case s.ESP != nil:
		return "configuration from the file " + s.ESP.Path + " of the EFI system partition"
	case s.Credential != nil:
		return "configuration from the credential " + s.Credential.Name
	case s.Cluster != nil:
		return fmt.Sprintf("joins the cluster of %s, configuration from the Secret kube-system/%s",
			s.Cluster.Server, s.Cluster.Secret)
	case s.NodeAgent != nil:
		return "joins the cluster that " + cmp.Or(s.NodeAgent.Directory, NodeAgentDirectory) +
			" describes"
	}
	return "no source: it keeps the configuration that it has"
}

func (m Machine) disks() string {
	var all []string
	if in := m.Install; in != nil {
		what := "installs itself on " + in.Disk.summary() + " if that is empty"
		if in.Wipe != "" {
			what = "installs itself on " + in.Disk.summary() + ", overwriting it"
		}
		all = append(all, what)
	}
	if d := m.StateDisk(); d != nil {
		all = append(all, "state on "+d.summary())
	}
	if m.Encrypt() != "" {
		all = append(all, "state encrypted, opened by "+m.Encrypt())
	}
	if m.DataVolume.DiskClaim != (DiskClaim{}) {
		all = append(all, "kubelet's data on "+m.DataVolume.DiskClaim.summary())
	}
	if m.Cluster.EtcdVolume.DiskClaim != (DiskClaim{}) {
		all = append(all, "etcd's data on "+m.Cluster.EtcdVolume.DiskClaim.summary())
	}

	if all == nil {
		all = append(all, "claims no disk")
	}
	if m.State != nil && m.State.OnDamage == OnDamageReset {
		all = append(all, "formats a state partition that is damaged beyond repair")
	}
	return strings.Join(all, "; ")
}

// summary names the disk by all that it must match.
func (d DiskClaim) summary() string {
	var all []string
	for _, field := range []struct{ name, value string }{
		{"serial", d.Serial},
		{"model", d.Model},
		{"path", d.Path},
		{"at least", d.MinSize},
		{"at most", d.MaxSize},
	} {
		if field.value != "" {
			all = append(all, field.name+" "+field.value)
		}
	}

	if d.OnlyEmpty {
		all = append(all, "the only empty one")
	}

	return "the disk with " + strings.Join(all, ", ")
}

// version is the version in words.
func (u Upgrade) version() string {
	if u.Version == Newest {
		return "the newest release"
	}
	return u.Version
}

func (u Upgrade) summary() string {
	switch {
	case u.Hold != "":
		return "no upgrades: the system is held, " + u.Hold
	case u.Repository == "":
		return "no upgrades"
	}

	from := RedactText(u.Repository)
	what := "upgrades from " + from
	if u.Version != "" {
		what = "upgrades to " + u.version() + " from " + from
	}
	if u.Window != "" {
		what += " at " + u.Window + " UTC"
	}
	return what
}

func (m Machine) shells() string {
	if len(m.DebugShell) == 0 {
		return "no debug shell"
	}
	return "root shell without a password on " + strings.Join(m.DebugShell, ", ")
}

// opens says what of the kernel is open to all processes.
func (m Machine) opens() []string {
	open := slices.Clone(m.Kernel.Modules)
	if m.Kernel.UserNamespaces {
		open = append(open, "user namespaces")
	}
	if m.Kernel.IOUring {
		open = append(open, "io_uring")
	}
	if open == nil {
		return nil
	}
	return []string{"opens to all processes " + strings.Join(open, ", ")}
}
