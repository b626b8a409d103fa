// Package updates makes repositories of updates for tests.
package updates

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/loam-os/loam/firmware/authenticode"
	"github.com/loam-os/loam/firmware/pcrsig"
	"github.com/loam-os/loam/image/bundle"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/publish"
	"github.com/loam-os/loam/image/update"
)

// Repository is one in a temporary directory, with keys of its own.
type Repository struct {
	t        testing.TB
	Dir      string
	keys     publish.Keys
	expiries publish.Expiries

	// SignSums signs SHA256SUMS; nil leaves them unsigned.
	SignSums func(text []byte) ([]byte, error)
}

// New makes an empty one.
func New(t testing.TB) Repository {
	t.Helper()
	return newWith(t, publish.DefaultExpiries())
}

// NewLasting is New, and what is signed is valid for that time.
func NewLasting(t testing.TB, valid time.Duration) Repository {
	t.Helper()
	return newWith(t, publish.Expiries{
		Root:      valid,
		Targets:   valid,
		Snapshot:  valid,
		Timestamp: valid,
	})
}

func newWith(t testing.TB, e publish.Expiries) Repository {
	t.Helper()
	r := Repository{t: t, Dir: t.TempDir(), expiries: e}
	var err error
	r.keys, err = publish.NewKeys(filepath.Join(t.TempDir(), "keys"), 1)
	if err == nil {
		err = publish.Init(r.Dir, r.keys, 1, r.expiries, time.Now())
	}

	if err != nil {
		t.Fatal(err)
	}

	return r
}

// Root is the root.json that nodes trust.
func (r Repository) Root() []byte {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.Dir, "metadata/1.root.json"))
	if err != nil {
		r.t.Fatal(err)
	}
	return text
}

// Refresh signs a new timestamp.
func (r Repository) Refresh() {
	r.t.Helper()
	err := publish.Refresh(r.t.Context(), r.Dir, r.keys, r.expiries, time.Now(), meter.None)
	if err != nil {
		r.t.Fatal(err)
	}
}

// PublishKubernetes adds a bundle of Kubernetes.
func (r Repository) PublishKubernetes(ix bundle.Kubernetes, pack string) {
	r.t.Helper()
	_, err := publish.PublishKubernetes(r.t.Context(), r.Dir, r.keys, ix, pack,
		r.expiries, time.Now(), meter.None)
	if err != nil {
		r.t.Fatal(err)
	}
}

// Publish adds a release of these files.
func (r Repository) Publish(about bundle.Sources, root, verity, uki string) {
	r.t.Helper()
	b := update.Bundle{
		SignSums: r.SignSums,
		Root:     root,
		Verity:   verity,
		UKI:      uki,
		Pack:     filepath.Join(r.t.TempDir(), "pack"),
	}

	err := b.Write(about)
	if im, err := authenticode.ReadFile(uki); err == nil { // Some tests publish a file that is not a UKI.
		b.Index.Authenticode = im
	}

	if f, err := os.Open(uki); err == nil {
		b.Index.PCRKeys, _ = pcrsig.ReadKeys(f)
		_ = f.Close()
	}

	if err == nil {
		_, err = publish.Publish(r.t.Context(), r.Dir, r.keys, b, r.expiries, time.Now(), meter.None)
	}

	if err != nil {
		r.t.Fatal(err)
	}
}
