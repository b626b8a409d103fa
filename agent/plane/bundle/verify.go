package bundle

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Verify compares all files with their digests.
func (b Bundle) Verify(ctx context.Context) error {
	for _, f := range b.Files {
		if err := ctx.Err(); err != nil {
			return err
		}
		sum, err := digest(filepath.Join(b.Dir, f.Name))
		if err != nil {
			return fmt.Errorf("bundle of Kubernetes: %w", err)
		}
		if sum != f.SHA256 {
			return b.damaged(fmt.Errorf("%s: SHA-256 %.12s, want %.12s", f.Name, sum, f.SHA256))
		}
	}
	return nil
}

func digest(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()

	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
