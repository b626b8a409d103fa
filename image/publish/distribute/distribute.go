// Package distribute brings a repository of updates (image/repository) to where
// nodes find it: a directory, such as a USB drive's, or a registry. A reader
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
	"github.com/loam-os/loam/hint/redact"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/repository"
)

// Login is the account for pushes to a registry; empty for an anonymous push.
type Login struct{ User, Password string }

// Listener is told what [To] does.
type Listener interface {
	// Copied is called with each file that was not there, or was damaged there.
	Copied(name string, size int64)
	// Progress is called while To reads or writes much, as [meter.Report] says.
	Progress(part string, done, all int64)
}

// To copies the repository in dir to a directory or a registry. All of the
// repository is verified against its own metadata first.
func To(ctx context.Context, dir, to string, login Login, listener Listener) error {
	if strings.Contains(dir, "://") {
		return hint.With(fault.With(fmt.Errorf("%s: want the directory of a repository", redact.URLs(dir)),
			fault.Usage),
			"publish it on the machine that has it, or copy it here")
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

	unlock, err := publish.Lock(dir)
	if err == nil {
		defer unlock()
	} else if !errors.Is(err, fs.ErrPermission) && !errors.Is(err, unix.EROFS) {
		// No other process can publish there, then.
		return err
	}

	if !registry {
		if err := checkTarget(dir, to); err != nil {
			return err
		}
	}

	files, err := publish.Verify(ctx, dir, listener.Progress)
	if err != nil {
		return err
	}

	if registry {
		err = push(ctx, dir, files, r, login, listener)
	} else {
		err = copyTo(ctx, dir, files, to, listener)
	}

	if err != nil {
		return fmt.Errorf("publish %s to %s: %w", dir, to, err)
	}

	return nil
}

// checkTarget refuses what cannot be the copy of the repository in dir: a file, and
// the repository itself.
func checkTarget(dir, to string) error {
	target, err := os.Stat(to)
	isNew := errors.Is(err, fs.ErrNotExist)
	switch {
	case err != nil && !isNew:
		return err
	case err == nil && !target.IsDir():
		return &fs.PathError{Op: "open", Path: to, Err: unix.ENOTDIR}
	case isWithin(dir, to):
		return fault.With(fmt.Errorf("%s: it is in the repository itself", to), fault.Usage)
	case isNew:
		return nil
	}

	source, err := os.Stat(dir)
	if err == nil && os.SameFile(source, target) {
		return fault.With(fmt.Errorf("%s: it is the repository itself", to), fault.Usage)
	}
	return err
}

// isWithin reports whether a path is below a directory.
func isWithin(dir, path string) bool {
	above, err := filepath.Abs(dir)
	if err != nil {
		return false
	}
	below, err := filepath.Abs(path)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(above, below)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

func copyTo(
	ctx context.Context, dir string, files []publish.File, to string, listener Listener,
) error {
	files, err := missing(ctx, files, to, listener)
	if err != nil {
		return err
	}

	part := meter.Begin(ctx, "copy", publish.Size(files), listener.Progress)
	for _, f := range files {
		into := filepath.Join(to, f.Name)
		if err := errors.Join(ctx.Err(), os.MkdirAll(filepath.Dir(into), 0o755)); err != nil {
			return err
		}
		if err := f.Copy(into, filepath.Join(dir, f.Name), part); err != nil {
			return err
		}

		listener.Copied(f.Name, f.Size)
	}

	return nil
}

// missing returns the files that are not in the repository in dir, or damaged there.
func missing(
	ctx context.Context, files []publish.File, dir string, listener Listener,
) (lacking []publish.File, err error) {
	part := meter.Begin(ctx, "compare", publish.Size(files), listener.Progress)
	passed := int64(0)
	for _, f := range files {
		if !f.In(dir, part) {
			lacking = append(lacking, f)
		}

		// A file that is not there was not read.
		passed += f.Size
		if err := part.Reach(passed); err != nil {
			return nil, err
		}
	}
	return lacking, nil
}

// push leaves out what only systemd-sysupdate reads, which knows no registry.
func push(
	ctx context.Context,
	dir string,
	files []publish.File,
	r repository.OCIRef,
	login Login,
	listener Listener,
) error {
	repo, err := remote.NewRepository(r.Host + "/" + r.Name)
	if err != nil {
		return err
	}

	repo.PlainHTTP = r.Plain
	client := &auth.Client{
		Client: &http.Client{
			Transport: network.RoundTripper{RoundTripper: retry.NewTransport(nil)},
		},
		Cache: auth.NewCache(),
	}

	if login.User != "" {
		client.Credential = auth.StaticCredential(r.Host,
			auth.Credential{Username: login.User, Password: login.Password})
	}

	repo.Client = client
	layers := layersOf(files)
	if err := uploadMissing(ctx, dir, repo, layers, listener); err != nil {
		return err
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

// layersOf returns the layers of an artifact with the files that nodes read. The
// registry refuses content that has another digest.
func layersOf(files []publish.File) (layers []ocispec.Descriptor) {
	for _, f := range files {
		if !strings.Contains(f.Name, "/") && !strings.HasSuffix(f.Name, ".pack") {
			continue
		}
		layers = append(layers, ocispec.Descriptor{
			MediaType:   "application/octet-stream",
			Digest:      digest.NewDigestFromEncoded(digest.SHA256, f.SHA256),
			Size:        f.Size,
			Annotations: map[string]string{ocispec.AnnotationTitle: f.Name},
		})
	}
	return layers
}

// uploadMissing uploads the layers that the registry does not have, from the
// repository in dir.
func uploadMissing(
	ctx context.Context,
	dir string,
	repo *remote.Repository,
	layers []ocispec.Descriptor,
	listener Listener,
) error {
	var lacking []ocispec.Descriptor
	all := int64(0)
	for _, d := range layers {
		there, err := repo.Blobs().Exists(ctx, d)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Annotations[ocispec.AnnotationTitle], err)
		}
		if !there {
			lacking = append(lacking, d)
			all += d.Size
		}
	}

	part := meter.Begin(ctx, "upload", all, listener.Progress)
	for _, d := range lacking {
		name := d.Annotations[ocispec.AnnotationTitle]
		if err := upload(ctx, repo, filepath.Join(dir, name), d, part); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		listener.Copied(name, d.Size)
	}

	return nil
}

func upload(
	ctx context.Context,
	repo *remote.Repository,
	file string,
	d ocispec.Descriptor,
	part *meter.Part,
) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return repo.Blobs().Push(ctx, d, &counted{f, part})
}

// counted is a file that counts what is read. It can be read again from its start,
// for a request that is repeated. It does not embed the file, which could then be
// sent past Read (io.WriterTo).
type counted struct {
	file *os.File
	part *meter.Part
}

// Read implements [io.Reader].
func (c *counted) Read(b []byte) (int, error) { return io.TeeReader(c.file, c.part).Read(b) }

// Seek implements [io.Seeker].
func (c *counted) Seek(off int64, whence int) (int64, error) { return c.file.Seek(off, whence) }

// Close implements [io.Closer].
func (c *counted) Close() error { return c.file.Close() }
