package build

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/loam-os/loam/firmware/kmod"
)

// module reads a kernel module and undoes its compression: the initramfs is
// compressed as one, and the node should not spend time on xz.
func module(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}

	var r io.Reader
	switch filepath.Ext(file) {
	case ".xz":
		r, err = xz.NewReader(bytes.NewReader(text))
	case ".zst":
		r, err = zstd.NewReader(bytes.NewReader(text))
	default:
		return text, nil
	}

	if err != nil {
		return nil, fmt.Errorf("module %s: %w", file, err)
	}

	plain, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("module %s: %w", file, err)
	}

	return plain, nil
}

// plainNames are depmod texts whose files carry no compression suffix.
func plainNames(t kmod.Files) kmod.Files {
	t.Dep = []byte(plainName(string(t.Dep)))
	return t
}

func plainName(text string) string {
	return strings.NewReplacer(".ko.xz", ".ko", ".ko.zst", ".ko").Replace(text)
}
