package update

import (
	"errors"
	"os"

	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/repository"
)

// Bundle is the update bundle of a system: the index, and the files that it
// describes.
type Bundle struct {
	Index                   bundle.Index
	Pack, Root, Verity, UKI string

	// Waves say when the release reaches which share of the machines; with none, it
	// reaches all at once.
	Waves []repository.Wave

	// SignSums makes the detached OpenPGP signature of the SHA256SUMS of a
	// repository; nil if none.
	SignSums func(text []byte) ([]byte, error)
}

// Write makes the file Pack from the other files, and Index from about, which
// describes the system.
func (b *Bundle) Write(about bundle.Sources) (err error) {
	for to, name := range map[*bundle.Source]string{
		&about.Root:   b.Root,
		&about.Verity: b.Verity,
		&about.UKI:    b.UKI,
	} {
		f, err := os.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()

		info, err := f.Stat()
		if err != nil {
			return err
		}

		*to = bundle.Source{ReaderAt: f, Size: info.Size()}
	}

	pack, err := os.OpenFile(b.Pack, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}

	b.Index, err = bundle.Write(pack, about)
	return errors.Join(err, pack.Sync(), pack.Close())
}
