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
	"github.com/loam-os/loam/agent/cri"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/agent/registry"
)

// PreparedHosts has the hosts.toml files of a configuration whose images are looked
// for before it is applied. Another boot makes it anew.
const PreparedHosts = "/run/loam/certs.d"

// images are files of container Images, pulled by the node's containerd.
type Images struct {
	*registry.Registry
	node *durable.Dir
	// start starts containerd: until a configuration has it started, it is down,
	// and what it pulls may be part of the first.
	start func(ctx context.Context, unit string) error
	// prepared is the digest of the mirrors that are known.
	prepared string

	mu sync.Mutex
	// refs are the Images of the configuration that was looked at last.
	refs []string
}

func NewImages(node *durable.Dir, start func(ctx context.Context, unit string) error) *Images {
	return &Images{Registry: registry.New(registry.Socket, PreparedHosts, registry.HostsDir), node: node, start: start}
}

// Image is of content.Provider.
func (i *Images) Image(ctx context.Context, ref, path string) (config.Content, error) {
	c, err := i.Registry.Image(ctx, ref, path)
	if !errors.Is(err, registry.ErrNotRunning) {
		return c, err
	}
	if err := i.start(ctx, cri.Unit); err != nil {
		return config.Content{}, err
	}
	return i.Registry.Image(ctx, ref, path)
}

// Prepare makes mirrors and authorities known before they are in place. Mirrors that
// are known are left alone.
func (i *Images) Prepare(mirrors, authorities []config.File) error {
	var trusted []byte
	for _, f := range authorities {
		text, err := read(f)
		if err != nil {
			return fmt.Errorf("read %s: %w", f.Path, err)
		}
		trusted = append(append(trusted, text...), '\n')
	}
	i.Trust(trusted)

	digest := config.Desired{Files: mirrors}.Digest()
	if digest == i.prepared {
		return nil
	}
	if err := i.node.RemoveAll(PreparedHosts[1:]); err != nil {
		return err
	}
	for _, f := range mirrors {
		if err := i.write(f); err != nil {
			return fmt.Errorf("write the mirrors: %w", err)
		}
	}
	i.prepared = digest
	return nil
}

// WatchedFiles are those that make a difference to whether references are found; what
// Prepare writes is none of them.
func (i *Images) WatchedFiles(references []osc.Reference) []string {
	return slices.DeleteFunc(i.Files(references), func(name string) bool { return strings.HasPrefix(name, PreparedHosts+"/") })
}

func read(f config.File) ([]byte, error) {
	text, err := f.Content.Open()
	if err != nil {
		return nil, err
	}
	defer text.Close()
	return io.ReadAll(text)
}

func (i *Images) write(f config.File) error {
	data, err := read(f)
	if err != nil {
		return err
	}
	if err := i.node.MkdirAll(path.Dir(f.Path)[1:]); err != nil {
		return err
	}
	return i.node.WriteVolatile(f.Path[1:], data, 0o644)
}

// Follow begins a new look at a configuration.
func (i *Images) Follow(references []osc.Reference) {
	i.Registry.Follow(references)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.refs = nil
	for _, r := range references {
		if r.Image != "" {
			i.refs = append(i.refs, r.Image)
		}
	}
}

// Release gives back what no configuration needs any more, after one has proven
// itself.
func (i *Images) Release(ctx context.Context, log *zap.Logger) {
	i.mu.Lock()
	refs := slices.Clone(i.refs)
	i.mu.Unlock()
	if err := i.Keep(ctx, refs); err != nil && !errors.Is(err, registry.ErrNotRunning) {
		log.Warn("give back images", zap.Error(err))
	}
}

// Fallback is a place that is asked first, and another for what that does not have.
type Fallback struct{ First, Second content.Provider }

func (e Fallback) Secret(ctx context.Context, name, key string) (config.Content, error) {
	c, err := e.First.Secret(ctx, name, key)
	if errors.Is(err, content.ErrAbsent) {
		return e.Second.Secret(ctx, name, key)
	}
	return c, err
}

func (e Fallback) Image(ctx context.Context, ref, path string) (config.Content, error) {
	c, err := e.First.Image(ctx, ref, path)
	if errors.Is(err, content.ErrAbsent) {
		return e.Second.Image(ctx, ref, path)
	}
	return c, err
}

// Secret is of content.Provider: images have none.
func (i *Images) Secret(context.Context, string, string) (config.Content, error) {
	return config.Content{}, content.ErrAbsent
}
