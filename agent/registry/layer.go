package registry

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
)

// chunk is how much of a layer is requested from containerd at a time.
const chunk = 1 << 20

// maxWindow is the largest window of a zstd layer, which must be in memory to
// unpack it. zstd --ultra -22 has the largest in use, 128 MiB (RFC 8878,
// 3.1.1.1.2).
const maxWindow = 128 << 20

// archive reads the members of a layer.
type archive struct {
	*tar.Reader
	unpacked io.ReadCloser
	member   int // the next one
}

// openArchive detects the compression from the layer's first bytes, not from
// its media type: in some images the two differ.
func openArchive(layer io.Reader) (*archive, error) {
	packed := bufio.NewReaderSize(layer, chunk)
	magic, err := packed.Peek(4)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}

	var unpacked io.ReadCloser
	switch {
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}): // RFC 1952, 2.3.1
		unpacked, err = gzip.NewReader(packed)
	case bytes.Equal(magic, []byte{0x28, 0xb5, 0x2f, 0xfd}): // RFC 8878, 3.1.1
		var decoder *zstd.Decoder
		decoder, err = zstd.NewReader(packed, zstd.WithDecoderConcurrency(1),
			zstd.WithDecoderMaxWindow(maxWindow))
		if err == nil {
			unpacked = decoder.IOReadCloser()
		}
	default:
		unpacked = io.NopCloser(packed)
		err = nil
	}

	if err != nil {
		return nil, err
	}

	return &archive{Reader: tar.NewReader(unpacked), unpacked: unpacked}, nil
}

func (a *archive) next() (*tar.Header, error) {
	header, err := a.Next()
	a.member++
	return header, err
}

func (a *archive) Close() error { return a.unpacked.Close() }

// add places all members of a layer. One pass computes the digest of every file
// and of the layer, which must be want.
func (t *tree) add(layer int, blob io.Reader, want digest.Digest) error {
	sum := want.Verifier()
	blob = io.TeeReader(blob, sum)
	wrong := t.addMembers(layer, blob)

	// The digest includes trailing data and the rest of an invalid archive.
	if _, err := io.Copy(io.Discard, blob); err != nil {
		return err
	}
	if !sum.Verified() {
		return errDamaged
	}

	return wrong
}

func (t *tree) addMembers(layer int, blob io.Reader) error {
	a, err := openArchive(blob)
	if err != nil {
		return err
	}
	defer a.Close()
	for {
		header, err := a.next()
		if err == io.EOF {
			return nil
		}

		if err != nil {
			return err
		}

		file, err := a.file(layer, header)
		if err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
		if err := t.place(layer, header, file); err != nil {
			return err
		}
	}
}

var errDamaged = errors.New("the bytes on this node do not match the digest")

// file reads the member that next returned. It returns nil if that is not a
// regular file.
func (a *archive) file(layer int, header *tar.Header) (*file, error) {
	if !isRegular(header) {
		return nil, nil
	}

	sum := digest.SHA256.Digester()
	size, err := io.Copy(sum.Hash(), a)
	if err != nil {
		return nil, err
	}

	return &file{
		layer:  layer,
		member: a.member - 1,
		digest: sum.Digest(),
		size:   size,
	}, nil
}

func isRegular(header *tar.Header) bool {
	switch header.Typeflag {
	case tar.TypeReg, tar.TypeCont, tar.TypeGNUSparse:
		return true
	}
	return false
}

// seek advances to a member.
func (a *archive) seek(member int) error {
	for {
		if _, err := a.next(); err != nil {
			return err
		}
		if a.member > member {
			return nil
		}
	}
}
