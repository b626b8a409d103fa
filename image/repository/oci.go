package repository

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote/auth"

	"github.com/loam-os/loam/hint/redact"
)

// ArtifactType is the type of a repository in a registry: an OCI artifact whose
// layers are its files, by the annotation org.opencontainers.image.title
// (image-spec 1.1, "Guidance for artifacts").
const ArtifactType = "application/vnd.loam.repository.v1"

// maxManifest is more than a registry has to take (distribution-spec 1.1,
// "Pushing manifests").
const maxManifest = 4 << 20

// ociStore is an artifact of a registry.
type ociStore struct {
	blobs httpStore
	ref   OCIRef

	mu    sync.Mutex
	files map[string]ocispec.Descriptor
}

// OCIRef is oci://HOST/NAME:TAG, or oci+http:// for a registry without TLS.
type OCIRef struct {
	Host, Name, Tag string
	Plain           bool
}

// ParseOCI reads a reference; ok is false for one of another scheme.
func ParseOCI(ref string) (r OCIRef, ok bool, err error) {
	scheme, rest, _ := strings.Cut(ref, "://")
	if scheme != "oci" && scheme != "oci+http" {
		return r, false, nil
	}

	r.Plain = scheme == "oci+http"
	r.Host, rest, _ = strings.Cut(rest, "/")
	r.Name, r.Tag, ok = strings.Cut(rest, ":")
	if !ok {
		r.Tag = "latest"
	}

	u, parseErr := url.Parse("https://" + r.Host)
	if parseErr != nil || u.Host == "" || u.Host != r.Host || r.Name == "" || r.Tag == "" ||
		strings.ContainsAny(r.Name+r.Tag, "@:?#% ") {
		return r, true, fmt.Errorf("repository %s: want oci://HOST/NAME:TAG", redact.URLs(ref))
	}

	return r, true, nil
}

func openOCI(r OCIRef, o options) (Store, error) {
	base := &url.URL{Scheme: "https", Host: r.Host, Path: "/v2/" + r.Name}
	if r.Plain {
		base.Scheme = "http"
	}

	plain, err := newClient(o)
	if err != nil {
		return nil, err
	}

	// It gets the token that registries want even of those who have no
	// password.
	client := &auth.Client{Client: plain, Cache: auth.NewCache()}
	return &ociStore{
		blobs: httpStore{
			base:   base,
			client: client,
			accept: ocispec.MediaTypeImageManifest,
			ranged: o.mirror,
		},
		ref: r,
	}, nil
}

// file finds a file in the artifact. This Store sees one state of it.
func (s *ociStore) file(ctx context.Context, name string) (ocispec.Descriptor, error) {
	s.mu.Lock()
	defer s.mu.Unlock()

	if s.files == nil {
		text, err := s.blobs.Get(s.scoped(ctx), "manifests/"+s.ref.Tag, maxManifest)
		if err != nil {
			return ocispec.Descriptor{}, fmt.Errorf("artifact %s: %w", s.blobs.base.Redacted(), err)
		}

		var m ocispec.Manifest
		if err := json.Unmarshal(text, &m); err != nil {
			return ocispec.Descriptor{}, fmt.Errorf("artifact %s:%s: %w",
				s.blobs.base.Redacted(), s.ref.Tag, err)
		}

		if m.ArtifactType != ArtifactType {
			return ocispec.Descriptor{}, fmt.Errorf(
				"artifact %s:%s: of type %.80q, not a repository",
				s.blobs.base.Redacted(), s.ref.Tag, m.ArtifactType,
			)
		}

		s.files = map[string]ocispec.Descriptor{}
		for _, l := range m.Layers {
			if err := l.Digest.Validate(); err != nil || l.Size < 0 {
				return ocispec.Descriptor{}, fmt.Errorf(
					"artifact %s:%s: a layer has size %d and digest %.80q",
					s.blobs.base.Redacted(), s.ref.Tag, l.Size, l.Digest,
				)
			}
			s.files[l.Annotations[ocispec.AnnotationTitle]] = l
		}
	}

	d, ok := s.files[name]
	if !ok {
		return d, fmt.Errorf("%s in %s:%s: %w",
			name, s.blobs.base.Redacted(), s.ref.Tag, ErrNotFound)
	}

	return d, nil
}

func (s *ociStore) Get(ctx context.Context, name string, limit int64) ([]byte, error) {
	d, err := s.file(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.blobs.Get(s.scoped(ctx), "blobs/"+d.Digest.String(), limit)
}

func (s *ociStore) Range(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	d, err := s.file(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.blobs.Range(s.scoped(ctx), "blobs/"+d.Digest.String(), off, n)
}

// scoped adds the scope of the token to the context, so that one request gets
// it.
func (s *ociStore) scoped(ctx context.Context) context.Context {
	return auth.AppendRepositoryScope(ctx,
		registry.Reference{Registry: s.ref.Host, Repository: s.ref.Name}, auth.ActionPull)
}

// doer sends requests.
type doer interface {
	Do(req *http.Request) (*http.Response, error)
}
