package rootfs

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/loam-os/loam/image/cache"
	"github.com/loam-os/loam/image/tools"
)

// Compression of the image. Measured on 2 cores with erofs-utils 1.8.6, the
// cloud tree of 275 MB, loam of 45 MB not counted: lz4 161 MB in 0.6 s, lz4hc
// level 9 138 MB in 4.5 s, zstd level 1 128 MB in 4.0 s, level 3 123 MB in
// 5.7 s, level 6 123 MB in 17 s; fragments save 4 MB more for 6 s.
// Clusters of 64 KiB: 32 KiB cost 2 MB, 128 KiB save less than 1 MB.
const (
	compression = "zstd,level=3"
	clusterSize = 65536
)

// File is a file to put into the image, owned by root.
type File struct {
	// Path in the image, without a leading slash.
	Path string
	// Mode holds permission bits.
	Mode int64
	// Source is the file with the content.
	Source string
}

// ImageParams say what else goes into an image.
type ImageParams struct {
	Params
	// Files come on top of the tree. Directories they need have mode 0755.
	Files []File
	// UUID of the file system, as text.
	UUID string
}

// Image writes the erofs image of root, with p.Files added, to dst. Equal
// inputs give equal bytes. The image of the tree itself is kept in the cache:
// what changes often is appended to a copy of it, by mkfs.erofs in incremental
// mode, which merges a tar archive into an image.
func Image(ctx context.Context, t tools.Tree, root Root, p ImageParams, dst string) error {
	base, err := cache.Ensure(ctx, p.Cache, p.baseName(root), func(tmp string) error {
		return p.mkfs(ctx, t, filepath.Join(tmp, "root.erofs"), root.Dir, []string{tmp, root.entry},
			// Kernel and microcode are in the UKI, not in the root file system.
			`--exclude-regex=^usr/lib/modules/[^/]*/vmlinuz$`,
			`--exclude-regex=^usr/lib/firmware/(intel|amd)-ucode$`)
	})
	if err != nil {
		return fmt.Errorf("erofs image: %w", err)
	}
	if err := p.add(ctx, t, filepath.Join(base, "root.erofs"), dst); err != nil {
		return fmt.Errorf("erofs image %s: %w", dst, err)
	}

	return nil
}

// baseName names the image of the tree alone: by the tree, and by what shapes
// the image.
func (p ImageParams) baseName(root Root) string {
	sum := sha256.Sum256(fmt.Append(nil, compression, clusterSize, p.UUID, p.SourceDateEpoch))
	return fmt.Sprintf("%s-erofs-%x", filepath.Base(root.entry), sum[:4])
}

// add makes dst from a copy of base and the files of p.
func (p ImageParams) add(ctx context.Context, t tools.Tree, base, dst string) error {
	work, err := os.MkdirTemp(filepath.Dir(dst), ".erofs-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)

	archive := filepath.Join(work, "files.tar")
	image := filepath.Join(work, "root.erofs")

	if err := writeArchive(archive, p.Files, p.SourceDateEpoch); err != nil {
		return err
	}
	if err := copyFile(image, base); err != nil {
		return err
	}

	err = p.mkfs(ctx, t, image, archive, []string{work}, "--incremental=data", "--tar=f")
	if err != nil {
		return err
	}

	return os.Rename(image, dst)
}

// mkfs runs mkfs.erofs, see its manual page. Entries are sorted, times all the
// same, and nothing depends on the number of workers.
func (p ImageParams) mkfs(
	ctx context.Context, t tools.Tree, image, source string, binds []string, options ...string,
) error {
	args := append([]string{
		"--quiet", "-z" + compression, "-C" + strconv.Itoa(clusterSize),
		"-T" + strconv.FormatInt(p.SourceDateEpoch, 10), "-U" + p.UUID}, options...)

	cmd := t.Command(ctx, binds, "mkfs.erofs", append(args, image, source)...)
	cmd.Stdout = p.Log
	cmd.Stderr = p.Log
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("mkfs.erofs: %w", err)
	}

	return nil
}
