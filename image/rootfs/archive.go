package rootfs

import (
	"archive/tar"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// writeArchive writes files, and the directories above them, as a tar archive
// in sorted order. The root directory is in it as well: without that entry
// mkfs.erofs gives the merged root directory mode 0777.
func writeArchive(name string, files []File, epoch int64) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	defer f.Close()

	w := tar.NewWriter(f)
	when := time.Unix(epoch, 0)
	for _, dir := range parents(files) {
		err := w.WriteHeader(&tar.Header{
			Typeflag: tar.TypeDir,
			Name:     dir,
			Mode:     0o755,
			ModTime:  when,
		})
		if err != nil {
			return fmt.Errorf("archive %s: %w", dir, err)
		}
	}

	sorted := slices.SortedFunc(slices.Values(files), func(a, b File) int {
		return strings.Compare(a.Path, b.Path)
	})

	for _, file := range sorted {
		if err := archiveFile(w, file, when); err != nil {
			return fmt.Errorf("archive %s: %w", file.Path, err)
		}
	}

	if err := w.Close(); err != nil {
		return err
	}

	return f.Close()
}

// parents are the directories above files, each once, parents first.
func parents(files []File) []string {
	dirs := []string{"./"}
	for _, f := range files {
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			dirs = append(dirs, dir+"/")
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

func archiveFile(w *tar.Writer, file File, when time.Time) error {
	src, err := os.Open(file.Source)
	if err != nil {
		return err
	}
	defer src.Close()

	info, err := src.Stat()
	if err != nil {
		return err
	}

	h := &tar.Header{
		Typeflag: tar.TypeReg,
		Name:     file.Path,
		Mode:     file.Mode,
		Size:     info.Size(),
		ModTime:  when,
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}

	_, err = io.Copy(w, src)
	return err
}

// copyFile copies src to a new file dst, in the kernel.
func copyFile(dst, src string) error {
	in, err := os.Open(src)
	if err != nil {
		return err
	}
	defer in.Close()

	out, err := os.Create(dst)
	if err != nil {
		return err
	}

	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return fmt.Errorf("copy %s: %w", src, err)
	}

	return out.Close()
}
