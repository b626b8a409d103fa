package image

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/partitions/sparse"
)

// describe sums up files of dir, side by side, in their order.
func describe(dir string, names []string) ([]manifest.File, error) {
	files := make([]manifest.File, len(names))
	errs := make([]error, len(names))
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
	if err := sparse.Copy(sum, f, info.Size()); err != nil {
		return manifest.File{}, fmt.Errorf("sum of %s: %w", name, err)
	}

	return manifest.File{
		Name:   name,
		Size:   info.Size(),
		SHA256: hex.EncodeToString(sum.Sum(nil)),
	}, nil
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
