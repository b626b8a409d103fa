package publish

import (
	"bytes"
	"crypto"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/image/dsse"
	"github.com/loam-os/loam/image/repository"
)

// news is what the node reads.
func (f *fixture) news() repository.News {
	f.Helper()
	n, err := repository.Update(f.Context(), f.store(), f.node, f.read("metadata/1.root.json"),
		repository.Clock{Now: f.now})
	f.ok(err)
	return n
}

// payload permits 0.2.0 on node-1 for three days.
const payload = `{"imageID":"loam-node-os","version":"0.2.0","node":"node-1","expires":"2026-11-24T12:00:00Z"}`

func (f *fixture) enveloped(kind, payload string, keys ...crypto.Signer) []byte {
	f.Helper()
	text, err := enveloped(kind, []byte(payload), keys...)
	f.ok(err)
	return text
}

func TestPermits(t *testing.T) {
	for _, tc := range []struct {
		name string
		// permit makes it, after time and keys have gone on.
		permit func(f *fixture) []byte
		want   error
	}{
		{"one that is good", func(f *fixture) []byte {
			return f.enveloped(repository.PermitType, payload, f.keys.Targets)
		}, nil},
		{"one on its last second", func(f *fixture) []byte {
			f.now = start.Add(3 * day)
			return f.enveloped(repository.PermitType, payload, f.keys.Targets)
		}, nil},
		{"one a second later", func(f *fixture) []byte {
			f.now = start.Add(3*day + time.Second)
			return f.enveloped(repository.PermitType, payload, f.keys.Targets)
		}, repository.ErrExpired},
		{"an old one, by a clock that is set back", func(f *fixture) []byte {
			f.ok(f.refresh(f.keys, start.Add(4*day)))
			return f.enveloped(repository.PermitType, payload, f.keys.Targets)
		}, repository.ErrExpired},
		{"one that was changed", func(f *fixture) []byte {
			var e dsse.Envelope
			f.ok(json.Unmarshal(f.enveloped(repository.PermitType, payload, f.keys.Targets), &e))
			e.Payload = bytes.Replace(e.Payload, []byte("0.2.0"), []byte("0.1.0"), 1)
			text, err := json.Marshal(e)
			f.ok(err)

			return text
		}, repository.ErrUnsigned},
		{"one without a signature", func(f *fixture) []byte {
			return f.enveloped(repository.PermitType, payload)
		}, repository.ErrUnsigned},
		{"one by somebody else", func(f *fixture) []byte {
			return f.enveloped(repository.PermitType, payload, f.newKeys(1).Targets)
		}, repository.ErrUnsigned},
		{"one by the key of the timestamp", func(f *fixture) []byte {
			return f.enveloped(repository.PermitType, payload, f.keys.Timestamp)
		}, repository.ErrUnsigned},
		{"one by keys that were replaced since", func(f *fixture) []byte {
			old := f.keys
			f.ok(Rotate(f.dir, old, f.newKeys(1), 1, DefaultExpiries(), f.now))
			return f.enveloped(repository.PermitType, payload, old.Targets)
		}, repository.ErrUnsigned},
		{"another kind of document", func(f *fixture) []byte {
			return f.enveloped("application/json", payload, f.keys.Targets)
		}, repository.ErrInvalid},
		{"a condition that is not known", func(f *fixture) []byte {
			return f.enveloped(repository.PermitType, `{"weekday":"Monday",`+payload[1:],
				f.keys.Targets)
		}, repository.ErrInvalid},
		{"targets.json, which the same key signs", func(f *fixture) []byte {
			return f.read("metadata/2.targets.json")
		}, repository.ErrInvalid},
		{"nothing", func(*fixture) []byte { return nil }, repository.ErrInvalid},
		{"two of them", func(f *fixture) []byte {
			return bytes.Repeat(f.enveloped(repository.PermitType, payload, f.keys.Targets), 2)
		}, repository.ErrInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.publish("0.2.0")
			text := tc.permit(f)
			p, err := f.news().Permit(text)

			want := repository.Permit{}
			if tc.want == nil {
				want = repository.Permit{
					ImageID: "loam-node-os",
					Version: "0.2.0",
					Node:    "node-1",
					Expires: start.Add(3 * day),
				}
			}

			if diff := cmp.Diff(want, p); diff != "" || !errors.Is(err, tc.want) {
				t.Errorf("error %v, want %v\n%s", err, tc.want, diff)
			}
		})
	}
}

// TestAPermitOfTwoKeys: one of them twice is not enough.
func TestAPermitOfTwoKeys(t *testing.T) {
	f := newFixture(t)
	f.publish("0.2.0")
	n := f.news()
	one := f.keys.Targets
	other := f.newKeys(1).Targets
	f.ok(addKey(&n.Metadata.Root.Signed, metadata.TARGETS, other))
	n.Metadata.Root.Signed.Roles[metadata.TARGETS].Threshold = 2

	_, err := n.Permit(f.enveloped(repository.PermitType, payload, one, one))
	if !errors.Is(err, repository.ErrUnsigned) {
		t.Errorf("error %v", err)
	}

	if _, err := n.Permit(f.enveloped(repository.PermitType, payload, one, other)); err != nil {
		t.Error(err)
	}
}

func TestSignPermit(t *testing.T) {
	f := newFixture(t)
	f.publish("0.2.0")
	p, text, err := SignPermit(f.dir, f.keys, "0.2.0", "node-1", start.Add(3*day+1))
	f.ok(err)

	if got, err := f.news().Permit(text); err != nil || got != p {
		t.Errorf("%v, %v, want %v", got, err, p)
	}

	for name, sign := range map[string]func() error{
		"a version that is not published": func() error {
			_, _, err := SignPermit(f.dir, f.keys, "0.1.0", "", start)
			return err
		},
		"another repository's key": func() error {
			_, _, err := SignPermit(f.dir, f.newKeys(1), "0.2.0", "", start)
			return err
		},
		"no key": func() error {
			_, _, err := SignPermit(f.dir, Keys{}, "0.2.0", "", start)
			return err
		},
	} {
		if err := sign(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
