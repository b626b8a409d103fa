package agent

import (
	"cmp"
	"math/rand/v2"
	"os"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/osc"
)

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
	for _, t := range from.Tokens {
		c.Tokens = append(c.Tokens, cluster.Token(t))
	}
	return c, from.BootstrapToken, true, nil
}

// join makes the node part of a cluster: its configuration and its Secrets come
// from there. token is the bootstrap token, "" for that in the node's file.
func (env Env) join(a *Agent, decoder *Decoder, config cluster.Config, token string, root *os.Root, wishes Wishes) *cluster.Cluster {
	config.Hostname = a.Status.Hostname
	config.Machine = cmp.Or(config.Machine, config.Hostname)
	c := cluster.New(config, cluster.Env{
		Root: durable.New(root, nil), Token: token, Restart: wishes.Restart, Now: env.Now, Uptime: env.Uptime, Part: rand.Float64, Log: env.Log,
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
