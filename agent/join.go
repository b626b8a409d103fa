package agent

import (
	"bytes"
	"cmp"
	"context"
	"crypto/x509"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/cluster/credentials"
	"github.com/loam-os/loam/agent/cluster/reach"
	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/networkd"
	"github.com/loam-os/loam/hint"
)

// agentCA is where a configuration may bring certificate authorities of the API
// server besides those that machine.yaml has. Either may be the newer:
// authorities are rotated while a node is off, and an operator then brings a
// new machine.yaml.
const agentCA = "var/lib/gardener-node-agent/cluster-ca.crt"

// resolvConf is where systemd-resolved writes the name servers of the network
// (systemd-resolved.service(8)); /etc/resolv.conf is a link to it.
const resolvConf = "run/systemd/resolve/resolv.conf"

// clusterOf is the cluster that machine.yaml names; false if it names none.
func clusterOf(
	m machine.Source,
	root *os.Root,
) (c cluster.Config, token string, ok bool, err error) {
	switch {
	case m.NodeAgent != nil:
		dir := cmp.Or(m.NodeAgent.Directory, credentials.Directory)
		c, err = cluster.ReadNodeAgent(root.FS(), dir)
		if dir == credentials.Directory {
			c.Tokens = nil // The configuration carries them, and may change them.
		}
		return c, "", true, err
	case m.Cluster == nil:
		return c, "", false, nil
	}

	from := m.Cluster
	c = cluster.Config{
		Server:            from.Server,
		CA:                []byte(from.CA),
		SecretName:        from.Secret,
		Machine:           from.Machine,
		Zone:              from.Zone,
		KubernetesVersion: from.KubernetesVersion,
	}
	if more, err := root.ReadFile(agentCA); err == nil {
		c.CA = both(c.CA, more)
	}

	for _, t := range from.Tokens {
		c.Tokens = append(c.Tokens, cluster.Token(t))
	}

	return c, from.BootstrapToken, true, nil
}

// both are the certificates of two PEM texts; of the second only if it has any.
func both(first, second []byte) []byte {
	second = bytes.TrimSpace(second)
	if !x509.NewCertPool().AppendCertsFromPEM(second) || bytes.Contains(first, second) {
		return first
	}
	return slices.Concat(bytes.TrimSpace(first), []byte("\n"), second, []byte("\n"))
}

// join makes the node part of a cluster: its configuration and its Secrets come
// from there. token is the bootstrap token, "" for that in the node's file.
func (n *life) join(config cluster.Config, token string) {
	complete := func(c cluster.Config) cluster.Config {
		c.Hostname = n.status.Hostname
		c.Machine = cmp.Or(c.Machine, c.Hostname)
		return c
	}
	id, err := n.BootID()
	if err != nil {
		n.Log.Error("join", zap.Error(err))
	}

	n.cluster = cluster.New(complete(config), cluster.Env{
		Root:  n.root,
		Image: n.image.FS(),
		Spare: n.spare,
		Token: token,
		Restart: func(ctx context.Context, units []string) error {
			return hint.InText(n.requests.RestartUnits(ctx, units))
		},
		Apply: func(ctx context.Context) error {
			_, err := n.requests.Apply(ctx, control.ApplyRequest{})
			return hint.InText(err)
		},
		Kubelet: liveness.Kubelet(liveness.KubeletAddress),
		Reload: func() (cluster.Config, error) {
			c, _, _, err := clusterOf(n.machine.Source, n.root)
			return complete(c), err
		},
		BootID:    id,
		Addresses: addresses,
		Network:   func() reach.Network { return reaching(n.root) },
		Now:       n.Now,
		Uptime:    n.Uptime,
		Part:      rand.Float64,
		Log:       n.Log,
	})
	n.source = n.cluster
	n.tokens = config.Tokens
	n.cluster.Env.Classify = classifier(n.decoding().pending(imagePolicy(n.machine)), n.planner())
	n.status.Warnings = append(n.status.Warnings, config.Warnings...)
}

// reaching returns the network from which the node makes requests now.
func reaching(root *os.Root) reach.Network {
	var now reach.Network
	for _, l := range networkd.Observe(root.FS(), networkd.Addressed) {
		now.Links = append(now.Links, reach.Link{
			Name:      l.Name,
			State:     l.Oper,
			Addresses: l.Addresses,
		})
	}

	text, _ := root.ReadFile(resolvConf) // Without it, no name server is known.
	for line := range strings.Lines(string(text)) {
		if server, is := strings.CutPrefix(line, "nameserver "); is {
			now.DNS = append(now.DNS, strings.TrimSpace(server))
		}
	}
	return now
}

// addresses returns the addresses of the node's interfaces.
func addresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	var ips []netip.Addr
	for _, a := range all {
		if prefix, err := netip.ParsePrefix(a.String()); err == nil {
			ips = append(ips, prefix.Addr())
		}
	}
	return ips, err
}
