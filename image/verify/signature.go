package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/loam-os/loam/image"
	"github.com/loam-os/loam/image/manifest"
	"github.com/loam-os/loam/partitions"
	"github.com/loam-os/loam/partitions/gpt"
	"github.com/loam-os/loam/partitions/verity"
)

// readSignature returns the signature of the root hash of the build in dir, nil
// if it is not signed.
func readSignature(dir string, m manifest.Manifest) (*verity.Signature, error) {
	i := slices.IndexFunc(m.Files, func(f manifest.File) bool {
		return strings.HasSuffix(f.Name, image.SignatureSuffix)
	})
	if i < 0 {
		return nil, nil
	}

	content, err := os.ReadFile(filepath.Join(dir, m.Files[i].Name))
	if err != nil {
		return nil, err
	}

	s, err := verity.ParseSignature(content)
	if err == nil && s.RootHash != m.RootHash {
		err = fmt.Errorf("of root hash %s, manifest: %s", s.RootHash, m.RootHash)
	}

	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Files[i].Name, err)
	}

	return &s, nil
}

// verifySignature checks that the disk has the signature of the root hash if,
// and only if, there is one.
func verifySignature(disk io.ReaderAt, t gpt.Table, arch string, s *verity.Signature) error {
	slots, err := partitions.Slots(t, arch)
	if err != nil {
		return err
	}

	part := t.Partition(slots[0].Sig)
	if s == nil {
		if part.Label != partitions.EmptyLabel {
			return fmt.Errorf("partition %d: label %s, and the root hash is not signed",
				part.Index, part.Label)
		}
		return nil
	}

	want, err := s.Encode()
	if err != nil {
		return err
	}

	have := make([]byte, len(want))
	if _, err := disk.ReadAt(have, part.Start); err != nil || !bytes.Equal(have, want) {
		return errors.Join(err,
			fmt.Errorf("partition %d: not the signature of the root hash", part.Index))
	}

	return nil
}
