package publish

import (
	"context"
	"crypto"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/image/dsse"
	"github.com/loam-os/loam/image/repository"
)

// SignPermit permits a release of the repository in dir until a time, to a
// node, or to all if node is "".
func SignPermit(
	dir string, keys Keys, version, node string, until time.Time,
) (repository.Permit, []byte, error) {
	_, news, err := read(context.Background(), dir)
	if err != nil {
		return repository.Permit{}, nil, err
	}

	all := news.Releases
	at := slices.IndexFunc(all, func(r repository.Release) bool { return r.Version == version })
	if at < 0 {
		return repository.Permit{}, nil, hint.With(
			fault.With(fmt.Errorf("repository %s: no version %q", dir, version),
				fault.NoSuchRelease),
			"only what is published can be permitted")
	}

	p := repository.Permit{
		ImageID: all[at].ImageID,
		Version: version,
		Node:    node,
		Expires: until.UTC().Truncate(time.Second),
	}

	payload, err := json.Marshal(p)
	if err != nil {
		return repository.Permit{}, nil, err
	}

	text, err := enveloped(repository.PermitType, payload, keys.Targets)
	if err != nil {
		return p, text, err
	}

	// The key may be another repository's. The time does not matter here.
	news.Time = p.Expires
	_, err = news.Permit(text)

	return p, text, err
}

// enveloped signs a payload.
func enveloped(kind string, payload []byte, keys ...crypto.Signer) ([]byte, error) {
	if slices.Contains(keys, nil) {
		return nil, fmt.Errorf("sign a permit: %w", errNoKey)
	}
	return dsse.Sign(kind, payload, keyID, keys...)
}

// keyID names a key as the metadata of a repository does.
func keyID(key ed25519.PublicKey) (string, error) {
	public, err := metadata.KeyFromPublicKey(key)
	if err != nil {
		return "", err
	}
	return public.ID()
}
