package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"io"
)

// Content is the bytes of a file, with their digest and a way to read them. Two
// contents are equal if their digests are.
type Content struct {
	// Digest is the SHA-256 of the bytes, 64 hex digits; Size counts them.
	Digest string `json:"digest"`
	Size   int64  `json:"size"`
	open   func() (io.ReadCloser, error)
}

// Inline returns content of data, which must not change afterwards.
func Inline(data []byte) Content {
	sum := sha256.Sum256(data)
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }
	return Content{hex.EncodeToString(sum[:]), int64(len(data)), open}
}

// Text is Inline for a string.
func Text(text string) Content { return Inline([]byte(text)) }

// Stream returns content that is too large for memory. Readers must check the
// digest.
func Stream(digest string, size int64, open func() (io.ReadCloser, error)) Content {
	return Content{digest, size, open}
}

// Open reads the content from its beginning. The caller must close it.
func (c Content) Open() (io.ReadCloser, error) { return c.open() }

// Equal compares digests; go-cmp uses it too.
func (c Content) Equal(other Content) bool { return c.Digest == other.Digest }
