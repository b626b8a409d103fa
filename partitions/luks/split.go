package luks

import (
	"crypto/subtle"
	"encoding/binary"
	"io"
)

// split spreads a key over stripes, all of which are needed to get it back, so
// that a disk which keeps a few old blocks does not keep the key (LUKS1 On-Disk
// Format, section 2.4).
func (a af) split(key []byte, random io.Reader) ([]byte, error) {
	out := make([]byte, len(key)*a.Stripes)
	last := len(out) - len(key)
	if _, err := io.ReadFull(random, out[:last]); err != nil {
		return nil, err
	}
	subtle.XORBytes(out[last:], a.fold(out[:last], len(key)), key)
	return out, nil
}

// merge returns the key of size bytes that was split.
func (a af) merge(stripes []byte, size int) []byte {
	last := len(stripes) - size
	key := make([]byte, size)
	subtle.XORBytes(key, a.fold(stripes[:last], size), stripes[last:])
	return key
}

// fold mixes all stripes but the last one.
func (a af) fold(stripes []byte, size int) []byte {
	mixed := make([]byte, size)
	for i := 0; i < len(stripes); i += size {
		subtle.XORBytes(mixed, mixed, stripes[i:i+size])
		a.diffuse(mixed)
	}
	return mixed
}

// diffuse replaces each part of b, as long as the hash, by the hash of its
// number and itself.
func (a af) diffuse(b []byte) {
	h := newHash(a.Hash)()
	for i := 0; i*h.Size() < len(b); i++ {
		part := b[i*h.Size() : min((i+1)*h.Size(), len(b))]
		h.Reset()
		h.Write(binary.BigEndian.AppendUint32(nil, uint32(i)))
		h.Write(part)
		copy(part, h.Sum(nil))
	}
}
