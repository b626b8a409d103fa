package output

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/partitions/sparse"
)

// Describe sums up files of dir, several at a time, and returns them in order. It
// writes all of their bytes to count, too.
func Describe(dir string, names []string, count io.Writer) ([]manifest.File, error) {
	files := make([]manifest.File, len(names))
	errs := make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { files[i], errs[i] = DescribeFile(dir, name, count) })
	}

	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}

	return files, nil
}

// DescribeFile sums up a file of dir. It writes all of its bytes to count, too.
func DescribeFile(dir, name string, count io.Writer) (manifest.File, error) {
	f, err := os.Open(filepath.Join(dir, name))
	if err != nil {
		return manifest.File{}, err
	}
	defer f.Close()

	info, err := f.Stat()
	if err != nil {
		return manifest.File{}, err
	}

	sum := sha256.New()
	if err := sparse.Copy(io.MultiWriter(sum, count), f, info.Size()); err != nil {
		return manifest.File{}, fmt.Errorf("sum of %s: %w", name, err)
	}

	return manifest.File{
		Name:   name,
		Size:   info.Size(),
		SHA256: hex.EncodeToString(sum.Sum(nil)),
	}, nil
}

// Check compares files of dir with their sizes and digests. It writes all of their
// bytes to count, too.
func Check(dir string, files []manifest.File, count io.Writer) error {
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}

	have, err := Describe(dir, names, count)
	if err != nil {
		return err
	}

	for i, f := range have {
		if f != files[i] {
			return fmt.Errorf("%s: %d bytes, SHA-256 %s; manifest: %d bytes, %s",
				f.Name, f.Size, f.SHA256, files[i].Size, files[i].SHA256)
		}
	}

	return nil
}

// Sums returns the content of SHA256SUMS, as sha256sum(1) checks it: the files
// of m, and m itself, whose encoding is text.
func Sums(m manifest.Manifest, text []byte) string {
	var b strings.Builder
	for _, f := range m.Files {
		fmt.Fprintf(&b, "%s  %s\n", f.SHA256, f.Name)
	}
	fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(text), image.ManifestName)
	return b.String()
}
