package content

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/osc"
)

// Directory provides contents from a directory of the node, in which an
// operator or an image has put them:
//
//	secrets/NAME/KEY
//	images/HOST/REPOSITORY:TAG/PATH
//
// No name and no link leads out of secrets or images.
type Directory struct{ Path string }

const (
	secretsDir = "secrets"
	imagesDir  = "images"
)

// Secret implements [Provider].
func (d Directory) Secret(ctx context.Context, name, key string) (config.Content, error) {
	return d.content(ctx, secretsDir, filepath.Join(name, key))
}

// Image implements [Provider]. ref may have tag and digest: its directory has
// the same name.
func (d Directory) Image(ctx context.Context, ref, path string) (config.Content, error) {
	return d.content(ctx, imagesDir, filepath.Join(ref, path))
}

// Files returns the paths at which the directory has the references, or would
// have them.
func (d Directory) Files(references []osc.Reference) []string {
	var files []string
	for _, r := range references {
		if r.Image != "" {
			files = append(files, filepath.Join(d.Path, imagesDir, r.Image, r.Path))
		} else {
			files = append(files, filepath.Join(d.Path, secretsDir, r.Secret, r.Key))
		}
	}
	return files
}

// content reads the file once for its digest. It is read again when it is used;
// the reader then compares the digest.
func (d Directory) content(ctx context.Context, kind, name string) (config.Content, error) {
	file, err := d.open(kind, name)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrAbsent
	}

	if err != nil {
		return config.Content{}, fmt.Errorf("%s: %w", filepath.Join(d.Path, kind, name), err)
	}

	defer file.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, reader{ctx, file})
	if err != nil {
		return config.Content{}, fmt.Errorf("read %s: %w", filepath.Join(d.Path, kind, name), err)
	}

	open := func() (io.ReadCloser, error) { return d.open(kind, name) }
	return config.Stream(hex.EncodeToString(sum.Sum(nil)), size, open), nil
}

// open opens a regular file. It does not block on a pipe.
func (d Directory) open(kind, name string) (*os.File, error) {
	root, err := os.OpenRoot(filepath.Join(d.Path, kind))
	if err != nil {
		return nil, err
	}
	defer root.Close()

	file, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}

	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}

	if err != nil {
		return nil, errors.Join(err, file.Close())
	}

	return file, nil
}

// reader fails once its context has ended.
type reader struct {
	ctx context.Context
	io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}
