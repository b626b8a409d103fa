package registry

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/osc"
	"github.com/loam-os/loam/image/repository/roots"
)

// Socket is containerd's socket, HostsDir its directory of mirrors and
// authorities.
const (
	Socket   = "/run/containerd/containerd.sock"
	HostsDir = "/etc/containerd/certs.d"
)

// Registry implements [content.Provider] for files of images.
type Registry struct {
	socket   string
	hosts    []string
	limits   limits
	verifier verifier

	// lock serializes requests to registries and changes of containerd's
	// content. A second request for the same image then finds it there.
	lock chan struct{}

	mu     sync.Mutex
	named  map[string]ocispec.Descriptor // the digest of each reference since Follow
	images map[digest.Digest]image       // images by digest
	hangs  error                         // set if containerd did not answer since Follow

	// authorities are trusted in addition to the machine's, as PEM.
	authorities []byte
}

// image is an image whose layers containerd has.
type image struct {
	layers []ocispec.Descriptor // the lowest first
	files  *tree
}

// New returns a provider that uses the containerd at socket. A registry's
// hosts.toml is read from the first directory of hosts that has one for it.
func New(socket string, hosts ...string) *Registry {
	return &Registry{
		socket: socket,
		hosts:  hosts,
		limits: limits{answer: AnswerLimit, work: workLimit},
		lock:   make(chan struct{}, 1),
		named:  map[string]ocispec.Descriptor{},
		images: map[digest.Digest]image{},
	}
}

// Follow starts a new round of lookups for a configuration. Each tag is
// resolved once in a round, so that all files of an image are from the same
// one, and a hanging containerd is waited for once.
func (r *Registry) Follow([]osc.Reference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.named)
	r.hangs = nil
}

// Trust sets the authorities, as PEM, that are trusted in addition to the
// machine's and those in hosts.toml.
func (r *Registry) Trust(authorities []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.authorities = authorities
}

// trust has transport trust the machine's authorities, or those of hosts.toml, and
// these.
func trust(transport *http.Transport, authorities []byte) error {
	if transport.TLSClientConfig == nil {
		return nil
	}

	pool := transport.TLSClientConfig.RootCAs
	if pool == nil {
		var err error
		pool, err = roots.Machine()
		if err != nil {
			return err
		}
	}

	pool.AppendCertsFromPEM(authorities)
	transport.TLSClientConfig.RootCAs = pool
	return nil
}

// Files returns the files that decide whether the references can be resolved:
// containerd's socket and the hosts.toml of their registries.
func (r *Registry) Files(references []osc.Reference) []string {
	files := map[string]bool{}
	for _, reference := range references {
		spec, err := parse(reference.Image)
		if reference.Image == "" || err != nil {
			continue
		}
		files[r.socket] = true
		for _, dir := range r.hosts {
			for _, host := range []string{
				directoryOf(spec.Hostname()), spec.Hostname(), everyHost,
			} {
				files[filepath.Join(dir, host, "hosts.toml")] = true
			}
		}
	}

	return slices.Sorted(maps.Keys(files))
}

// directoryOf returns host:port as containerd may also name a directory
// (docs/hosts.md).
func directoryOf(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > 0 {
		return host[:i] + "_" + host[i+1:] + "_"
	}
	return host
}

// Image implements [content.Provider]. It pulls an image that is not on the
// node. The registry is asked for a tag, but not for a digest that is present.
// If the registry cannot be reached, the tag's previous image is used.
func (r *Registry) Image(ctx context.Context, ref, path string) (config.Content, error) {
	i, err := r.image(ctx, ref)
	if err != nil {
		return config.Content{}, err
	}

	file, err := i.files.find(path)
	if err != nil {
		return config.Content{}, err
	}

	open := func() (io.ReadCloser, error) { return r.open(i.layers[file.layer], file) }
	return config.Stream(file.digest.Encoded(), file.size, open), nil
}

func (r *Registry) image(ctx context.Context, ref string) (i image, err error) {
	spec, err := parse(ref)
	if err != nil {
		return image{}, err
	}

	if err := r.acquire(ctx); err != nil {
		return image{}, err
	}

	defer r.release()
	ctx, s, err := r.connectOnce(ctx)
	if err != nil {
		return image{}, err
	}
	defer s.close()
	defer func() { err = s.explain(err) }()

	remote := r.remote(ctx, spec)
	defer remote.close()

	target, err := r.target(ctx, s, remote)
	if err != nil {
		return image{}, err
	}

	signature, err := r.verifier.verify(ctx, s, remote, target)
	if err != nil {
		return image{}, err
	}

	i, err = r.present(ctx, s, remote, target, signature)
	if err != nil {
		return image{}, err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.images[target.Digest] = i

	return i, nil
}

// present returns the image target and pulls it unless containerd has it under
// the name. signature is not nil if containerd does not have that yet.
func (r *Registry) present(
	ctx context.Context,
	s *session,
	remote *remote,
	target ocispec.Descriptor,
	signature *ocispec.Descriptor,
) (image, error) {
	r.mu.Lock()
	i, known := r.images[target.Digest]
	r.mu.Unlock()
	if known && signature == nil {
		last, ok, err := s.record(ctx, remote.name())
		if err != nil || (ok && last.Digest == target.Digest) {
			return i, err
		}
	}

	return s.pull(ctx, remote, target, signature)
}

func (r *Registry) acquire(ctx context.Context) error {
	select {
	case r.lock <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for another image: %w", ctx.Err())
	}
}

func (r *Registry) release() { <-r.lock }
