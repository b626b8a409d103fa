package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/loam-os/loam/image/manifest"
)

// describe sums up files of dir, side by side, in their order.
func describe(dir string, names []string) ([]manifest.File, error) {
	files, errs := make([]manifest.File, len(names)), make([]error, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { files[i], errs[i] = describeFile(dir, name) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return files, nil
}

func describeFile(dir, name string) (manifest.File, error) {
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
	if err := sumSparse(sum, f, info.Size()); err != nil {
		return manifest.File{}, fmt.Errorf("sum of %s: %w", name, err)
	}
	return manifest.File{Name: name, Size: info.Size(), SHA256: hex.EncodeToString(sum.Sum(nil))}, nil
}

// sumSparse hashes f without reading its holes.
func sumSparse(sum hash.Hash, f *os.File, size int64) error {
	pos := int64(0)
	err := eachExtent(f, size, func(start, end int64) error {
		if err := sumZeros(sum, start-pos); err != nil {
			return err
		}
		pos = end
		_, err := io.Copy(sum, io.NewSectionReader(f, start, end-start))
		return err
	})
	if err != nil {
		return err
	}
	return sumZeros(sum, size-pos)
}

func sumZeros(sum hash.Hash, n int64) error {
	zero := make([]byte, 1<<20)
	for ; n > 0; n -= int64(len(zero)) {
		if _, err := sum.Write(zero[:min(n, int64(len(zero)))]); err != nil {
			return err
		}
	}
	return nil
}

// sums is the text of SHA256SUMS, as sha256sum(1) checks it: the files of m,
// and m itself, whose encoding is text.
func sums(m manifest.Manifest, text []byte) string {
	var b strings.Builder
	for _, f := range m.Files {
		fmt.Fprintf(&b, "%s  %s\n", f.SHA256, f.Name)
	}
	fmt.Fprintf(&b, "%x  %s\n", sha256.Sum256(text), ManifestName)
	return b.String()
}
