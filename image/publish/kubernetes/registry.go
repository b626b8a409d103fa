package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content/file"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/network"
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
	if err := pull(ctx, ref, dir); err != nil {
		return "", fmt.Errorf("fetch %s: %w", p.From, err)
	}
	return dir, nil
}

// pull fetches the files of an artifact whose layers have their names, as
// `oras push` makes it.
func pull(ctx context.Context, ref repository.OCIRef, dir string) (err error) {
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

	_, err = oras.Copy(ctx, repo, ref.Tag, files, ref.Tag, oras.DefaultCopyOptions)
	if err != nil {
		return hint.With(err, "`oras push HOST/NAME:TAG FILE...` pushes such an artifact")
	}
	return nil
}
