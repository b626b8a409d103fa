package publish

import (
	"context"
	"crypto"
	"encoding/hex"
	"io"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/image/repository"
)

// memoryStore is a Store.
type memoryStore map[string][]byte

func (s memoryStore) Get(_ context.Context, name string, limit int64) ([]byte, error) {
	data, ok := s[name]
	switch {
	case !ok:
		return nil, repository.ErrNotFound
	case int64(len(data)) > limit:
		return nil, repository.ErrTooLarge
	}
	return data, nil
}

// signed is a signature of the payload in hex, and the ID of its key.
func signed(key crypto.Signer, payload []byte) (sig, id string) {
	public, err := metadata.KeyFromPublicKey(key.Public())
	if err == nil {
		id, err = public.ID()
	}
	if err != nil {
		panic(err)
	}
	raw, err := key.Sign(nil, payload, crypto.Hash(0))
	if err != nil {
		panic(err)
	}
	return hex.EncodeToString(raw), id
}

func (s memoryStore) Range(context.Context, string, int64, int64) (io.ReadCloser, error) {
	return nil, repository.ErrNotFound
}
