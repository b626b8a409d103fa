package agent

import (
	"cmp"
	"context"
	"math/rand/v2"
	"os"

	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/machine"
	"github.com/loam-os/loam/agent/osc"
)

// join makes the node part of the cluster that machine.yaml names: its
// configuration and its Secrets come from there.
func (env Env) join(a *Agent, decoder *Decoder, m *machine.Cluster, root *os.Root, wishes Wishes) *cluster.Cluster {
	c := &cluster.Cluster{
		Config: cluster.Config{
			Server: m.Server, CA: []byte(m.CA), SecretName: m.Secret, Machine: cmp.Or(m.Machine, a.Status.Hostname), Hostname: a.Status.Hostname,
			Zone: m.Zone, KubernetesVersion: m.KubernetesVersion,
		},
		Root: durable.New(root, nil), Token: m.BootstrapToken, Restart: wishes.Restart,
		Now: env.Now, Uptime: env.Uptime, Part: rand.Float64, Log: env.Log,
	}
	for _, t := range m.Tokens {
		c.Tokens = append(c.Tokens, cluster.Token(t))
	}
	others, follow := decoder.Contents, decoder.Follow
	decoder.Contents = NewProvider(c, others)
	decoder.Follow = func(references []osc.Reference) {
		c.Follow(references)
		if follow != nil {
			follow(references)
		}
	}
	a.Source, a.Cluster = c, c
	return c
}

// NewProvider has Secrets from the cluster and files of images from elsewhere,
// which may be nil.
func NewProvider(secrets *cluster.Cluster, images content.Provider) content.Provider {
	return provider{secrets, images}
}

type provider struct {
	secrets *cluster.Cluster
	images  content.Provider
}

func (p provider) Secret(ctx context.Context, name, key string) (config.Content, error) {
	return p.secrets.Secret(ctx, name, key)
}

func (p provider) Image(ctx context.Context, ref, path string) (config.Content, error) {
	if p.images == nil {
		return config.Content{}, content.ErrAbsent
	}
	return p.images.Image(ctx, ref, path)
}
