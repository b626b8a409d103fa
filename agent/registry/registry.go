// Package registry provides files of container images. containerd pulls and
// keeps the images; the files are read from their layers, which are archives:
// nothing is unpacked or mounted.
//
// It is the only importer of containerd's client. Images are pulled into a
// containerd namespace of Loam's own, through the mirrors that the same
// configuration brings. Certificates in /var/lib/ca-certificates-local of a
// configuration are trusted for the pull, before any of its files is in place.
package registry

import (
	"context"
	"crypto/x509"
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
)

// Socket is containerd's, HostsDir where it finds mirrors and authorities.
const (
	Socket   = "/run/containerd/containerd.sock"
	HostsDir = "/etc/containerd/certs.d"
)

// Registry is a content.Provider for files of images.
type Registry struct {
	socket string
	hosts  []string
	limits limits

	// turn is held by who asks a registry or changes what containerd has:
	// whoever wants the same image meanwhile finds it there.
	turn chan struct{}

	mu     sync.Mutex
	named  map[string]ocispec.Descriptor // what each reference names since Follow
	images map[digest.Digest]image       // by what a reference names
	hangs  error                         // that containerd did not answer since Follow

	// authorities are trusted besides the machine's, as PEM.
	authorities []byte
}

// image is one whose layers containerd has.
type image struct {
	layers []ocispec.Descriptor // the lowest first
	files  *tree
}

// New is the provider that asks the containerd at socket. A registry's
// hosts.toml is that of the first directory of hosts that has one for it.
func New(socket string, hosts ...string) *Registry {
	return &Registry{
		socket: socket,
		hosts:  hosts,
		limits: limits{answer: AnswerLimit, work: workLimit},
		turn:   make(chan struct{}, 1),
		named:  map[string]ocispec.Descriptor{},
		images: map[digest.Digest]image{},
	}
}

// Follow begins a new look at a configuration, which refers to references: in
// it, each tag is asked for once, so that all files of an image are of one, and
// a containerd that hangs is waited for once.
func (r *Registry) Follow([]osc.Reference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.named)
	r.hangs = nil
}

// Trust has authorities be trusted, as PEM, besides the machine's and those of
// hosts.toml, and no others from before.
func (r *Registry) Trust(authorities []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.authorities = authorities
}

// trust adds authorities to those that transport trusts.
func trust(transport *http.Transport, authorities []byte) error {
	if len(authorities) == 0 || transport.TLSClientConfig == nil {
		return nil
	}

	roots := transport.TLSClientConfig.RootCAs
	if roots == nil {
		var err error
		roots, err = x509.SystemCertPool()
		if err != nil {
			return fmt.Errorf("read the authorities that the machine trusts: %w", err)
		}
	}

	roots.AppendCertsFromPEM(authorities)
	transport.TLSClientConfig.RootCAs = roots
	return nil
}

// Files are those that make a difference to whether the references are found:
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
				directoryOf(spec.Hostname()), spec.Hostname(), "_default",
			} {
				files[filepath.Join(dir, host, "hosts.toml")] = true
			}
		}
	}

	return slices.Sorted(maps.Keys(files))
}

// directoryOf is host:port as containerd also names a directory
// (docs/hosts.md).
func directoryOf(host string) string {
	if i := strings.LastIndexByte(host, ':'); i > 0 {
		return host[:i] + "_" + host[i+1:] + "_"
	}
	return host
}

// Image implements content.Provider. An image that is not on the node is
// pulled. One with a digest that is there is not asked for; one with a tag is,
// but if its registry cannot be reached, what the tag named last is good
// enough.
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

func (r *Registry) image(ctx context.Context, ref string) (image, error) {
	spec, err := parse(ref)
	if err != nil {
		return image{}, err
	}

	if err := r.take(ctx); err != nil {
		return image{}, err
	}

	defer r.give()
	ctx, s, err := r.connectOnce(ctx)
	if err != nil {
		return image{}, err
	}
	defer s.close()

	remote := r.remote(ctx, spec)
	defer remote.close()

	target, err := r.target(ctx, s, remote)
	if err != nil {
		return image{}, err
	}

	i, err := r.present(ctx, s, remote, target)
	if err != nil {
		return image{}, err
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	r.images[target.Digest] = i

	return i, nil
}

// present is the image target, pulled unless containerd has it under the name.
func (r *Registry) present(
	ctx context.Context, s *session, remote *remote, target ocispec.Descriptor,
) (image, error) {
	r.mu.Lock()
	i, known := r.images[target.Digest]
	r.mu.Unlock()
	if known {
		last, ok, err := s.record(ctx, remote.name())
		if err != nil || ok && last.Digest == target.Digest {
			return i, err
		}
	}

	return s.pull(ctx, remote, target)
}

func (r *Registry) take(ctx context.Context) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for another image: %w", ctx.Err())
	}
}

func (r *Registry) give() { <-r.turn }
