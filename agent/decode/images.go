package decode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/agent/cosign"
	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/probe"
	"github.com/loam-os/loam/agent/registry"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// PreparedHosts has the hosts.toml files of a configuration whose images are
// pulled before it is applied, PendingHosts those of one that is only looked
// at. They are gone after a restart of the machine.
const (
	PreparedHosts = "/run/loam/certs.d"
	PendingHosts  = "/run/loam/certs-pending.d"
)

// ErrTag is returned for an image that a tag names, where only a digest may.
var ErrTag = hint.With(
	fault.With(errors.New("its tag is what the registry says today, and this node wants a digest"),
		fault.DigestMissing),
	"name it as IMAGE@sha256:DIGEST, or write images: {tags: allow} in machine.yaml")

// CheckTag returns [ErrTag] unless ref has a digest.
func CheckTag(ref string) error {
	if strings.Contains(ref, "@") {
		return nil
	}
	return ErrTag
}

// ImagePolicy says which images a node takes.
type ImagePolicy struct {
	// DigestsOnly refuses images that a tag names.
	DigestsOnly bool
	// Keys are public keys as PEM, one of which must have signed each image;
	// without keys, signatures do not matter.
	Keys []string
}

// Images provides the files of container images, pulled by the node's
// containerd. It implements [content.Provider].
type Images struct {
	registry *registry.Registry
	policy   ImagePolicy
	// err says why the keys of policy cannot be used: there are no images then.
	err   error
	node  *durable.Dir
	hosts string // where Prepare writes
	start func(ctx context.Context, unit string) error
	// reach returns an error unless the mirrors of a probe answer.
	reach func(ctx context.Context, p config.Probe) error

	// prepared is the digest of the mirrors in hosts. Those that waiting has a
	// probe for are not there yet.
	prepared string
	waiting  []config.Probe

	mu sync.Mutex
	// refs are the images of the configuration that was decoded last.
	refs []string
}

// NewImages returns the Images of a node, which uses the directory hosts for
// what its configuration says of registries. start starts containerd: it is down
// until a configuration starts it, and that configuration may need an image
// itself.
func NewImages(
	node *durable.Dir,
	hosts string,
	policy ImagePolicy,
	start func(ctx context.Context, unit string) error,
) *Images {
	i := &Images{
		registry: registry.New(registry.Socket, hosts, registry.HostsDir),
		policy:   policy,
		node:     node,
		hosts:    hosts,
		start:    start,
		reach:    probe.Reach,
	}
	var keys cosign.Keys
	keys, i.err = cosign.ParseKeys(policy.Keys)
	i.registry.Require(keys)
	return i
}

// Image implements [content.Provider].
func (i *Images) Image(ctx context.Context, ref, path string) (config.Content, error) {
	if i.err != nil {
		return config.Content{}, i.err
	}
	if i.policy.DigestsOnly {
		if err := CheckTag(ref); err != nil {
			return config.Content{}, err
		}
	}

	found, err := i.registry.Image(ctx, ref, path)
	if !errors.Is(err, registry.ErrNotRunning) {
		return found, err
	}

	if err := i.start(ctx, cri.Unit); err != nil {
		return config.Content{}, err
	}
	return i.registry.Image(ctx, ref, path)
}

// Secret implements [content.Provider]. Images have no Secrets.
func (i *Images) Secret(context.Context, string, string) (config.Content, error) {
	return config.Content{}, content.ErrAbsent
}

// Prepare makes the mirrors of a document known, and the authorities that it has
// the machine trust, before they are in place. A mirror with a readiness probe is
// known from when it answers: a cache in the cluster cannot do so before the
// node is in it. Prepare does not write the same mirrors twice.
func (i *Images) Prepare(
	ctx context.Context, parsed osc.OperatingSystemConfig, env osc.Env,
) error {
	mirrors, probes, err := osc.Mirrors(parsed, env, i.hosts)
	if err != nil {
		return err
	}
	authorities, err := osc.Authorities(parsed, env)
	if err != nil {
		return err
	}

	if err := i.trust(authorities); err != nil {
		return err
	}

	digest := config.Desired{Files: mirrors}.Digest()
	if digest != i.prepared {
		i.prepared = ""
		if err := i.node.RemoveAll(i.hosts[1:]); err != nil {
			return err
		}
		i.waiting = probes
		for _, file := range mirrors {
			if i.waitsFor(file) {
				continue
			}
			if err := i.write(file); err != nil {
				return fmt.Errorf("write the mirrors: %w", err)
			}
		}
		i.prepared = digest
	}

	return i.writeAnswering(ctx, mirrors)
}

// trust has the registry trust the certificates in files.
func (i *Images) trust(files []config.File) error {
	var trusted []byte
	for _, file := range files {
		text, err := read(file)
		if err != nil {
			return fmt.Errorf("read %s: %w", file.Path, err)
		}
		trusted = append(trusted, text...)
		trusted = append(trusted, '\n')
	}

	i.registry.Trust(trusted)
	return nil
}

// writeAnswering writes those mirrors that have been waited for and answer now.
func (i *Images) writeAnswering(ctx context.Context, mirrors []config.File) error {
	for _, p := range slices.Clone(i.waiting) {
		if i.reach(ctx, p) != nil {
			continue
		}

		n := slices.IndexFunc(mirrors, func(f config.File) bool { return f.Path == p.Path })
		if err := i.write(mirrors[n]); err != nil {
			return fmt.Errorf("write the mirrors: %w", err)
		}
		i.waiting = slices.DeleteFunc(i.waiting,
			func(other config.Probe) bool { return other.Path == p.Path })
	}

	return nil
}

func (i *Images) waitsFor(file config.File) bool {
	return slices.ContainsFunc(i.waiting, func(p config.Probe) bool { return p.Path == file.Path })
}

// WatchedFiles returns the files whose change may make references resolve
// differently, without what Prepare writes.
func (i *Images) WatchedFiles(references []osc.Reference) []string {
	return slices.DeleteFunc(i.registry.Files(references), func(name string) bool {
		return strings.HasPrefix(name, i.hosts+"/")
	})
}

// Follow must be called with the references of each configuration before they
// are resolved.
func (i *Images) Follow(references []osc.Reference) {
	i.registry.Follow(references)

	i.mu.Lock()
	defer i.mu.Unlock()
	i.refs = nil
	for _, r := range references {
		if r.Image != "" {
			i.refs = append(i.refs, r.Image)
		}
	}
}

// Release drops the images that the configuration decoded last does not refer
// to. It is called when a change has proven itself.
func (i *Images) Release(ctx context.Context, log *zap.Logger) {
	i.mu.Lock()
	refs := slices.Clone(i.refs)
	i.mu.Unlock()

	err := i.registry.Keep(ctx, refs)
	if err != nil && !errors.Is(err, registry.ErrNotRunning) {
		log.Warn("release images", zap.Error(err))
	}
}

func (i *Images) write(file config.File) error {
	data, err := read(file)
	if err != nil {
		return err
	}
	if err := i.node.MkdirAll(path.Dir(file.Path)[1:]); err != nil {
		return err
	}
	return i.node.WriteVolatile(file.Path[1:], data, 0o644)
}

func read(file config.File) ([]byte, error) {
	text, err := file.Content.Open()
	if err != nil {
		return nil, err
	}
	defer text.Close()
	return io.ReadAll(text)
}
