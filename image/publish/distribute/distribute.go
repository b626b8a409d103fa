// Package distribute brings a repository of updates (image/repository) to where
// nodes find it: a directory, such as a USB stick's, or a registry. A reader
// sees the state before or the one after.
package distribute

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/retry"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/repository"
)

// timestamp is the file that says which of the others are in force, sums the
// same for systemd-sysupdate: they go last.
const (
	timestamp = "metadata/timestamp.json"
	sums      = "SHA256SUMS"
)

// Login is the account for pushes to a registry; empty for an anonymous push.
type Login struct{ User, Password string }

// To copies the repository in dir to a directory or a registry, and reports
// each file that was not there.
func To(
	ctx context.Context, dir, to string, login Login, copied func(name string, size int64),
) error {
	unlock, err := publish.Lock(dir)
	if err == nil {
		defer unlock()
	} else if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EROFS) {
		// Nobody publishes there, then.
		return err
	}

	files, err := list(dir)
	if err != nil {
		return err
	}

	if !slices.Contains(files, timestamp) {
		return hint.With(fmt.Errorf("%s: no repository: it has no %s", dir, timestamp),
			"loamctl bundle makes one")
	}

	r, registry, err := repository.ParseOCI(to)
	switch {
	case err != nil:
		return err
	case registry:
		err = push(ctx, dir, files, r, login, copied)
	case strings.Contains(to, "://"):
		return hint.With(fmt.Errorf("%s: want a directory, or oci://HOST/NAME:TAG", to),
			"a web server needs the directory only: loamctl serve")
	default:
		err = copyTo(ctx, dir, files, to, copied)
	}

	if err != nil {
		return fmt.Errorf("publish %s to %s: %w", dir, to, err)
	}

	return nil
}

// list are the files of a repository, in the order in which they are to appear.
// What begins with a dot is on its way.
func list(dir string) (files []string, err error) {
	err = fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.Type().IsRegular():
			files = append(files, name)
		}
		return nil
	})

	slices.SortStableFunc(files, func(a, b string) int { return last(a) - last(b) })
	return files, err
}

// last is how much later than others a file has to appear.
func last(name string) int {
	return slices.Index([]string{sums, timestamp}, name)
}

func copyTo(
	ctx context.Context,
	dir string,
	files []string,
	to string,
	copied func(name string, size int64),
) error {
	for _, name := range files {
		from := filepath.Join(dir, name)
		into := filepath.Join(to, name)

		info, err := os.Stat(from)
		if err != nil {
			return err
		}

		if there, err := os.Stat(into); err == nil && there.Size() == info.Size() {
			if same, err := equal(from, into); err != nil || same {
				if err != nil {
					return err
				}
				continue
			}
		}

		if err := errors.Join(ctx.Err(), os.MkdirAll(filepath.Dir(into), 0o755)); err != nil {
			return err
		}
		if err := publish.CopyFile(into, from); err != nil {
			return err
		}

		copied(name, info.Size())
	}

	return nil
}

// equal compares the digests of two files.
func equal(a, b string) (bool, error) {
	da, err := describe(a)
	if err != nil {
		return false, err
	}
	db, err := describe(b)
	return da.Digest == db.Digest, err
}

func describe(file string) (d ocispec.Descriptor, err error) {
	f, err := os.Open(file)
	if err != nil {
		return d, err
	}
	defer f.Close()

	hash := digest.SHA256.Digester()
	d.MediaType = "application/octet-stream"

	d.Size, err = io.Copy(hash.Hash(), f)
	if err != nil {
		return d, err
	}

	d.Digest = hash.Digest()
	return d, nil
}

// push leaves out what only systemd-sysupdate reads, which knows no registry.
func push(
	ctx context.Context,
	dir string,
	files []string,
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
		Client: &http.Client{Transport: retry.NewTransport(nil)},
		Cache:  auth.NewCache(),
	}

	if login.User != "" {
		client.Credential = auth.StaticCredential(r.Host,
			auth.Credential{Username: login.User, Password: login.Password})
	}

	repo.Client = client
	var layers []ocispec.Descriptor
	for _, name := range files {
		if !strings.Contains(name, "/") && !strings.HasSuffix(name, ".pack") {
			continue
		}

		d, err := describe(filepath.Join(dir, name))
		if err != nil {
			return err
		}

		there, err := repo.Blobs().Exists(ctx, d)
		if err == nil && !there {
			err = upload(ctx, repo, filepath.Join(dir, name), d)
			if err == nil {
				copied(name, d.Size)
			}
		}

		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}

		d.Annotations = map[string]string{ocispec.AnnotationTitle: name}
		layers = append(layers, d)
	}

	manifest, err := oras.PackManifest(ctx, repo, oras.PackManifestVersion1_1,
		repository.ArtifactType, oras.PackManifestOptions{
			Layers: layers,
			// the same makes no other manifest
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
