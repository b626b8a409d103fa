package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"time"

	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	"github.com/containerd/containerd/v2/pkg/reference"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/loam-os/loam/agent/content"
	"github.com/loam-os/loam/hint"
)

// everyHost is the directory that counts for registries without their own.
const everyHost = "_default"

// silenceTimeout is how long a registry may send nothing.
const silenceTimeout = time.Minute

// remote is an image at its registry or a mirror.
type remote struct {
	reference.Spec
	resolver   remotes.Resolver
	transports []*http.Transport
}

func (r *Registry) remote(ctx context.Context, spec reference.Spec) *remote {
	r.mu.Lock()
	authorities := r.authorities
	r.mu.Unlock()
	m := &remote{Spec: spec}
	m.resolver = docker.NewResolver(
		docker.ResolverOptions{Hosts: config.ConfigureHosts(ctx, config.HostOptions{
			HostDir: r.hostDir,
			UpdateClient: func(client *http.Client) error {
				if transport, ok := client.Transport.(*http.Transport); ok {
					m.transports = append(m.transports, transport)
					return trust(transport, authorities)
				}
				return nil
			},
		})},
	)

	return m
}

// hostDir returns the directory with the hosts.toml or the authorities of a
// registry. What a later directory has of the registry itself comes before what
// an earlier one has for all registries.
func (r *Registry) hostDir(host string) (string, error) {
	all := ""
	for _, dir := range r.hosts {
		found, err := config.HostDirFromRoot(dir)(host)
		switch {
		case errdefs.IsNotFound(err):
		case err != nil:
			return "", err
		case filepath.Base(found) != everyHost:
			return found, nil
		case all == "":
			all = found
		}
	}

	if all == "" {
		return "", errdefs.ErrNotFound
	}
	return all, nil
}

func (m *remote) name() string { return m.String() }

// close closes all connections.
func (m *remote) close() {
	for _, transport := range m.transports {
		transport.CloseIdleConnections()
	}
}

// target returns the digest of the reference, the same until Follow.
func (r *Registry) target(ctx context.Context, s *session, m *remote) (ocispec.Descriptor, error) {
	r.mu.Lock()
	target, ok := r.named[m.name()]
	r.mu.Unlock()
	if ok {
		return target, nil
	}

	target, err := m.target(ctx, s)
	if err != nil {
		return ocispec.Descriptor{}, err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.named[m.name()] = target

	return target, nil
}

// target looks up a digest in containerd and a tag in the registry. If the
// registry cannot be reached, containerd has the previous image of the tag.
func (m *remote) target(ctx context.Context, s *session) (ocispec.Descriptor, error) {
	if want := m.Digest(); want != "" {
		if target, ok, err := s.withDigest(ctx, want); ok || err != nil {
			return target, err
		}
	}

	target, err := m.resolve(ctx)
	switch {
	case err == nil:
		return target, nil
	case errdefs.IsNotFound(err):
		return target, hint.With(
			fmt.Errorf("the registry %s has no such image: %w", m.Hostname(), content.ErrAbsent),
			"has it been pushed?",
		)
	case isUnreachable(ctx, err):
		if last, ok, err := s.record(ctx, m.name()); ok || err != nil {
			return last, err
		}
	}

	return target, m.explain(ctx, err)
}

func (m *remote) resolve(ctx context.Context) (ocispec.Descriptor, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, silenceTimeout, errSilent)
	defer cancel()
	_, target, err := m.resolver.Resolve(ctx, m.name())
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		err = errSilent
	}
	return target, err
}
