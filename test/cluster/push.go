package cluster

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

// PushImage pushes an image under a reference without host, such as
// "loam/os:v1", and returns the digest of its manifest. Only the digest finds
// an image whose reference has no tag.
func (r *Registry) PushImage(ref string, image Image) (string, error) {
	name, tag := split(ref)
	m, err := r.manifest(name, image)
	if err != nil {
		return "", fmt.Errorf("push %s: %w", ref, err)
	}

	d, err := r.put(name, tag, ManifestType, m)
	return d.Digest, err
}

// pushIndex pushes images for several architectures, and an index of them
// under the reference, whose digest it returns.
func (r *Registry) pushIndex(ref string, images ...Image) (string, error) {
	name, tag := split(ref)
	index := Index{SchemaVersion: 2, MediaType: IndexType}
	for _, i := range images {
		m, err := r.manifest(name, i)
		if err != nil {
			return "", fmt.Errorf("push %s: %w", ref, err)
		}

		d, err := r.put(name, "", ManifestType, m)
		if err != nil {
			return "", err
		}

		d.Platform = &Platform{Architecture: i.arch(), OS: "linux"}
		index.Manifests = append(index.Manifests, d)
	}

	d, err := r.put(name, tag, IndexType, index)
	return d.Digest, err
}

// split ends a name at the tag, if there is one.
func split(ref string) (name, tag string) {
	name, tag, _ = strings.Cut(ref, ":")
	return name, tag
}

// manifest pushes what an image consists of.
func (r *Registry) manifest(name string, image Image) (Manifest, error) {
	return image.push(func(mediaType string, blob []byte) (Descriptor, error) {
		return r.upload(name, mediaType, blob)
	})
}

// upload pushes a blob: POST for a place, PUT of all to it (distribution
// specification, "Pushing a blob monolithically").
func (r *Registry) upload(name, mediaType string, blob []byte) (Descriptor, error) {
	d := describe(mediaType, blob)
	begun, err := do(r.client,
		request{method: http.MethodPost, url: r.URL() + "/v2/" + name + "/blobs/uploads/"})
	if err != nil {
		return d, err
	}

	place, err := url.Parse(begun.header.Get("Location"))
	if err != nil {
		return d, fmt.Errorf("upload to %s: %w", name, err)
	}

	query := place.Query()
	query.Set("digest", d.Digest)
	place.RawQuery = query.Encode()
	_, err = do(r.client, request{
		method: http.MethodPut,
		url:    place.String(),
		body:   string(blob),
		header: http.Header{"Content-Type": {"application/octet-stream"}},
	})

	return d, err
}

// put pushes a manifest or an index, under its digest if tag is empty.
func (r *Registry) put(name, tag, mediaType string, content any) (Descriptor, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return Descriptor{}, err
	}

	d := describe(mediaType, text)
	if tag == "" {
		tag = d.Digest
	}

	_, err = do(r.client, request{
		method: http.MethodPut,
		url:    r.URL() + "/v2/" + name + "/manifests/" + tag,
		body:   string(text),
		header: http.Header{"Content-Type": {mediaType}},
	})

	return d, err
}

func describe(mediaType string, data []byte) Descriptor {
	return Descriptor{MediaType: mediaType, Digest: digest(data), Size: len(data)}
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }
