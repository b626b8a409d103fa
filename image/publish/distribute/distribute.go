// Package distribute brings a repository of updates (image/repository) to where
// nodes find it: a directory, such as a USB drive's, or a registry. A reader
// sees the state before or the one after.
package distribute

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/network"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/repository"
)

// Login is the account for pushes to a registry; empty for an anonymous push.
type Login struct{ User, Password string }

// To copies the repository in dir to a directory or a registry, and reports
// each file that was not there, or was damaged there. All of the repository is
// verified against its own metadata first.
func To(
	ctx context.Context, dir, to string, login Login, copied func(name string, size int64),
) error {
	unlock, err := publish.Lock(dir)
	if err == nil {
		defer unlock()
	} else if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EROFS) {
		// No other process can publish there, then.
		return err
	}

	r, registry, err := repository.ParseOCI(to)
	if err != nil {
		return err
	}

	if !registry && strings.Contains(to, "://") {
		return hint.With(fault.With(fmt.Errorf("%s: want a directory, or oci://HOST/NAME:TAG", to),
			fault.Usage),
			"a web server needs the directory only: loamctl serve")
	}

	files, err := publish.Verify(ctx, dir)
	if err != nil {
		return err
	}

	if registry {
		err = push(ctx, dir, files, r, login, copied)
	} else {
		err = copyTo(ctx, dir, files, to, copied)
	}

	if err != nil {
		return fmt.Errorf("publish %s to %s: %w", dir, to, err)
	}

	return nil
}

func copyTo(
	ctx context.Context,
	dir string,
	files []publish.File,
	to string,
	copied func(name string, size int64),
) error {
	for _, f := range files {
		if f.In(to) {
			continue
		}

		into := filepath.Join(to, f.Name)
		if err := errors.Join(ctx.Err(), os.MkdirAll(filepath.Dir(into), 0o755)); err != nil {
			return err
		}
		if err := f.Copy(into, filepath.Join(dir, f.Name)); err != nil {
			return err
		}

		copied(f.Name, f.Size)
	}

	return nil
}

// push leaves out what only systemd-sysupdate reads, which knows no registry.
func push(
	ctx context.Context,
	dir string,
	files []publish.File,
	r repository.OCIRef,
	login Login,
	copied func(name string, size int64),
) error {
	repo, err := remote.NewRepository(r.Host + "/" + r.Name)
	if err != nil {
		return err
	}

	repo.PlainHTTP = r.Plain
	client := &auth.Client{
		Client: &http.Client{Transport: network.RoundTripper{RoundTripper: retry.NewTransport(nil)}},
		Cache:  auth.NewCache(),
	}

	if login.User != "" {
		client.Credential = auth.StaticCredential(r.Host,
			auth.Credential{Username: login.User, Password: login.Password})
	}

	repo.Client = client
	var layers []ocispec.Descriptor
	for _, f := range files {
		if !strings.Contains(f.Name, "/") && !strings.HasSuffix(f.Name, ".pack") {
			continue
		}

		// The registry refuses content that has another digest.
		d := ocispec.Descriptor{
			MediaType: "application/octet-stream",
			Digest:    digest.NewDigestFromEncoded(digest.SHA256, f.SHA256),
			Size:      f.Size,
		}

		there, err := repo.Blobs().Exists(ctx, d)
		if err == nil && !there {
			err = upload(ctx, repo, filepath.Join(dir, f.Name), d)
			if err == nil {
				copied(f.Name, f.Size)
			}
		}

		if err != nil {
			return fmt.Errorf("%s: %w", f.Name, err)
		}

		d.Annotations = map[string]string{ocispec.AnnotationTitle: f.Name}
		layers = append(layers, d)
	}

	manifest, err := oras.PackManifest(ctx, repo, oras.PackManifestVersion1_1,
		repository.ArtifactType, oras.PackManifestOptions{
			Layers: layers,
			// equal content gives an equal manifest
			ManifestAnnotations: map[string]string{
				ocispec.AnnotationCreated: "1970-01-01T00:00:00Z",
			},
		})
	if err != nil {
		return err
	}

	return repo.Tag(ctx, manifest, r.Tag)
}

func upload(ctx context.Context, repo *remote.Repository, file string, d ocispec.Descriptor) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return repo.Blobs().Push(ctx, d, f)
}
