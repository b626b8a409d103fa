package cluster

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// Push pushes an image under a reference without host, as "loam/os:v1", and
// returns the digest of its manifest. A reference without tag is one that only
// the digest finds.
func (r *Registry) Push(t testing.TB, ref string, image Image) string {
	t.Helper()
	name, tag := split(ref)
	return r.put(t, name, tag, ManifestType, r.manifest(t, name, image)).Digest
}

// PushIndex pushes images for several architectures, and an index of them
// under the reference, whose digest it returns.
func (r *Registry) PushIndex(t testing.TB, ref string, images ...Image) string {
	t.Helper()
	name, tag := split(ref)
	index := Index{SchemaVersion: 2, MediaType: IndexType}
	for _, i := range images {
		d := r.put(t, name, "", ManifestType, r.manifest(t, name, i))
		d.Platform = &Platform{Architecture: i.arch(), OS: "linux"}
		index.Manifests = append(index.Manifests, d)
	}
	return r.put(t, name, tag, IndexType, marshal(t, index)).Digest
}

// split ends a name at the tag, if there is one.
func split(ref string) (name, tag string) {
	name, tag, _ = strings.Cut(ref, ":")
	return name, tag
}

// manifest pushes what an image consists of.
func (r *Registry) manifest(t testing.TB, name string, image Image) []byte {
	t.Helper()
	m := Manifest{SchemaVersion: 2, MediaType: ManifestType, Layers: []Descriptor{}}
	diffIDs := []string{}
	for _, l := range image.Layers {
		archive := l.archive(t)
		diffIDs = append(diffIDs, digest(archive))
		m.Layers = append(m.Layers, r.upload(t, name, layerType, compress(t, archive)))
	}
	m.Config = r.upload(t, name, configType, image.config(t, diffIDs))
	return marshal(t, m)
}

// upload pushes a blob: POST for a place, PUT of all to it (distribution
// specification, "Pushing a blob monolithically").
func (r *Registry) upload(t testing.TB, name, mediaType string, blob []byte) Descriptor {
	t.Helper()
	d := describe(mediaType, blob)
	begun := r.must(t, request{method: http.MethodPost, url: r.URL() + "/v2/" + name + "/blobs/uploads/"})
	place, err := url.Parse(begun.header.Get("Location"))
	if err != nil {
		t.Fatalf("upload to %s: %v", name, err)
	}
	query := place.Query()
	query.Set("digest", d.Digest)
	place.RawQuery = query.Encode()
	r.must(t, request{
		method: http.MethodPut, url: place.String(), body: string(blob),
		header: http.Header{"Content-Type": {"application/octet-stream"}},
	})
	return d
}

// put pushes a manifest or an index, under its digest if tag is empty.
func (r *Registry) put(t testing.TB, name, tag, mediaType string, text []byte) Descriptor {
	t.Helper()
	d := describe(mediaType, text)
	if tag == "" {
		tag = d.Digest
	}
	r.must(t, request{
		method: http.MethodPut, url: r.URL() + "/v2/" + name + "/manifests/" + tag, body: string(text),
		header: http.Header{"Content-Type": {mediaType}},
	})
	return d
}

// Get asks the registry for a path below /v2/, as "loam/os/manifests/v1".
func (r *Registry) Get(t testing.TB, path string) []byte {
	t.Helper()
	return r.must(t, request{
		method: http.MethodGet, url: r.URL() + "/v2/" + path,
		header: http.Header{"Accept": {IndexType, ManifestType}},
	}).body
}

func (r *Registry) must(t testing.TB, q request) response {
	t.Helper()
	a, err := do(r.client, q)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func describe(mediaType string, data []byte) Descriptor {
	return Descriptor{MediaType: mediaType, Digest: digest(data), Size: len(data)}
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }
