package registry

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	images "github.com/containerd/containerd/api/services/images/v1"
	contents "github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/opencontainers/go-digest"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/test/cluster"
)

// imagesOnly is a content.Provider without Secrets.
type imagesOnly struct{ *Registry }

func (imagesOnly) Secret(context.Context, string, string) (config.Content, error) {
	return config.Content{}, errors.New("no Secrets here")
}

func text(s string) cluster.File { return cluster.File{Content: []byte(s)} }

// get reads a file twice.
func get(t *testing.T, r *Registry, ref, path string) (string, error) {
	t.Helper()
	c, err := r.Image(t.Context(), ref, path)
	if err != nil {
		return "", err
	}

	var read bytes.Buffer
	for range 2 {
		read.Reset()
		o, err := c.Open()
		if err != nil {
			return "", err
		}
		_, err = io.Copy(&read, o)
		if err := errors.Join(err, o.Close()); err != nil {
			return "", err
		}
	}

	if c.Size != int64(read.Len()) ||
		"sha256:"+c.Digest != digest.FromBytes(read.Bytes()).String() {
		t.Errorf("%s of %s: digest %s, size %d: not what is read", path, ref, c.Digest, c.Size)
	}

	return read.String(), nil
}

// connected returns a session with containerd in a namespace.
func connected(t *testing.T, r *Registry, namespace string) (context.Context, *session) {
	t.Helper()
	ctx, s, err := r.connect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return namespaces.WithNamespace(ctx, namespace), s
}

// names returns the images of a namespace of containerd.
func names(t *testing.T, r *Registry, namespace string) []string {
	t.Helper()
	ctx, s := connected(t, r, namespace)
	answer, err := s.images.List(ctx, &images.ListImagesRequest{})
	if err != nil {
		t.Fatal(err)
	}

	var names []string
	for _, i := range answer.Images {
		names = append(names, i.Name)
	}

	slices.Sort(names)
	return names
}

// blobs counts the content of a namespace.
func blobs(t *testing.T, r *Registry, namespace string) int {
	t.Helper()
	ctx, s := connected(t, r, namespace)
	n := 0
	err := s.content.Walk(ctx, func(contents.Info) error { n++; return nil })
	if err != nil {
		t.Fatal(err)
	}

	return n
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
