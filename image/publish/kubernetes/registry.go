package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/file"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/network"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/repository"
)

// source returns the directory with the files, which is fetched if From is an
// artifact of a registry.
func (p Params) source(ctx context.Context) (string, error) {
	ref, is, err := repository.ParseOCI(p.From)
	if !is && strings.Contains(p.From, "://") {
		return "", fault.With(fmt.Errorf("--from %s: want a directory, or oci://HOST/NAME:TAG",
			p.From), fault.Usage)
	}
	if !is || err != nil {
		return p.From, err
	}

	dir := filepath.Join(p.Work, "source")
	if err := pull(ctx, ref, dir, p.Report); err != nil {
		return "", fmt.Errorf("fetch %s: %w", p.From, err)
	}
	return dir, nil
}

// pull fetches the files of an artifact whose layers have their names, as
// `oras push` makes it.
func pull(
	ctx context.Context, ref repository.OCIRef, dir string, report meter.Report,
) (err error) {
	repo, err := remote.NewRepository(ref.Host + "/" + ref.Name)
	if err != nil {
		return err
	}
	repo.PlainHTTP = ref.Plain
	repo.Client = &auth.Client{
		Client: &http.Client{
			Transport: network.RoundTripper{RoundTripper: retry.NewTransport(nil)},
		},
		Cache: auth.NewCache(),
	}

	files, err := file.New(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, files.Close()) }()

	all, err := size(ctx, repo, ref.Tag)
	if err == nil {
		from := metered{repo, meter.Begin(ctx, "fetch", all, report)}
		_, err = oras.Copy(ctx, from, ref.Tag, files, ref.Tag, oras.DefaultCopyOptions)
	}
	if err != nil {
		return hint.With(err, "`oras push HOST/NAME:TAG FILE...` pushes such an artifact")
	}
	return nil
}

// size returns how many bytes an artifact has with its manifest.
func size(ctx context.Context, repo *remote.Repository, tag string) (int64, error) {
	manifest, err := repo.Resolve(ctx, tag)
	if err != nil {
		return 0, err
	}
	layers, err := content.Successors(ctx, repo, manifest)
	all := manifest.Size
	for _, layer := range layers {
		all += layer.Size
	}
	return all, err
}

// metered counts what is fetched.
type metered struct {
	oras.ReadOnlyTarget
	part *meter.Part
}

// Fetch implements [content.Fetcher].
func (m metered) Fetch(ctx context.Context, d ocispec.Descriptor) (io.ReadCloser, error) {
	body, err := m.ReadOnlyTarget.Fetch(ctx, d)
	if err != nil {
		return nil, err
	}
	return counted{io.TeeReader(body, m.part), body}, nil
}

// counted reads from one reader, and closes another.
type counted struct {
	io.Reader
	io.Closer
}
