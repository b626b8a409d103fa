package agent

import (
	"cmp"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/liveness"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/osc"
)

// agentCA is where a configuration may bring other certificate authorities of the
// API server than machine.yaml has.
const agentCA = "var/lib/gardener-node-agent/cluster-ca.crt"

// clusterOf is the cluster that machine.yaml names; false if it names none.
func clusterOf(m machine.Source, root *os.Root) (c cluster.Config, token string, ok bool, err error) {
	switch {
	case m.NodeAgent != nil:
		c, err = cluster.ReadNodeAgent(root.FS(), cmp.Or(m.NodeAgent.Directory, cluster.Directory))
		return c, "", true, err
	case m.Cluster == nil:
		return c, "", false, nil
	}
	from := m.Cluster
	c = cluster.Config{
		Server: from.Server, CA: []byte(from.CA), SecretName: from.Secret, Machine: from.Machine, Zone: from.Zone, KubernetesVersion: from.KubernetesVersion,
	}
	if ca, err := root.ReadFile(agentCA); err == nil {
		c.CA = ca
	}
	for _, t := range from.Tokens {
		c.Tokens = append(c.Tokens, cluster.Token(t))
	}
	return c, from.BootstrapToken, true, nil
}

// join makes the node part of a cluster: its configuration and its Secrets come
// from there. token is the bootstrap token, "" for that in the node's file.
func (env Env) join(a *Agent, decoder *Decoder, from machine.Source, config cluster.Config, token string, root *os.Root, wishes Wishes) *cluster.Cluster {
	complete := func(c cluster.Config) cluster.Config {
		c.Hostname = a.Status.Hostname
		c.Machine = cmp.Or(c.Machine, c.Hostname)
		return c
	}
	c := cluster.New(complete(config), cluster.Env{
		Root: root, Token: token, Restart: wishes.Restart, Kubelet: liveness.Kubelet(liveness.KubeletAddress),
		Reload: func() (cluster.Config, error) {
			c, _, _, err := clusterOf(from, root)
			return complete(c), err
		},
		Addresses: addresses, Now: env.Now, Uptime: env.Uptime, Part: rand.Float64, Log: env.Log,
	})
	others, follow := decoder.Contents, decoder.Follow
	decoder.Contents = either{c, others}
	decoder.Follow = func(references []osc.Reference) {
		c.Follow(references)
		if follow != nil {
			follow(references)
		}
	}
	a.Source, a.Cluster = c, c
	return c
}

// addresses are those of the node's interfaces.
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
