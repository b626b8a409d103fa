package repository

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"
	"github.com/theupdateframework/go-tuf/v2/metadata/trustedmetadata"
)

// Update reads the metadata of s as a client does by the TUF specification (5.3
// to 5.6), and returns what it publishes. root is the root.json of the
// node's configuration. k stores verified metadata, each file before the
// request for the next; an unchanged file is not written.
func Update(ctx context.Context, s Store, k Records, root []byte, c Clock) (News, error) {
	u, err := update(ctx, s, k, root, c)
	if err != nil {
		return News{}, err
	}
	targets := u.set.Targets[metadata.TARGETS].Signed.Targets
	return News{
		Releases:   releases(targets),
		Kubernetes: kubernetes(targets),
		Time:       u.set.RefTime,
		Metadata:   u.set,
	}, nil
}

// Clock is what expiries are compared with. The wall clock alone would let old
// metadata pass when it is behind, or set back.
type Clock struct {
	// Now is the wall clock. Built is a time before the program was made: it is
	// never earlier than that. Nothing expires by the zero Clock.
	Now, Built time.Time
}

// floor is the latest of both.
func (c Clock) floor() time.Time {
	if c.Built.After(c.Now) {
		return c.Built
	}
	return c.Now
}

// News is what [Update] has read.
type News struct {
	// Releases and Kubernetes are newest first.
	Releases   []Release
	Kubernetes []Kubernetes

	// Time is what expiries were compared with last: the latest of the clock,
	// Built, and the time at which the timestamp was signed.
	Time time.Time

	// Metadata is what was verified: a publisher adds to it.
	Metadata *trustedmetadata.TrustedMetadata
}

func update(ctx context.Context, s Store, k Records, root []byte, c Clock) (*updater, error) {
	kept, err := Load(k)
	if err != nil {
		return nil, err
	}

	u := &updater{
		store:   s,
		records: k,
		clock:   c,
		saved:   kept,
		kept:    kept.begin(root),
	}

	u.set, err = open(u.kept.Root)
	if err != nil {
		return nil, translate("the trusted root.json", err)
	}

	u.set.RefTime = c.floor()
	for _, step := range []func(context.Context) error{
		u.roots, u.timestamp, u.snapshot, u.targets,
	} {
		if err := step(ctx); err != nil {
			return nil, err
		}
	}

	return u, nil
}

// updater is the state of [Update].
type updater struct {
	store   Store
	records Records
	clock   Clock
	// saved is what the records have, kept what it should have.
	saved, kept Trusted
	set         *trustedmetadata.TrustedMetadata
}

// save stores what changed.
func (u *updater) save() error {
	if u.kept.equal(u.saved) {
		return nil
	}
	u.saved = u.kept
	return u.kept.Save(u.records)
}

func (u *updater) get(ctx context.Context, file string, limit int64) ([]byte, error) {
	data, err := u.store.Get(ctx, "metadata/"+file, limit)
	if err != nil {
		return nil, explain(file, err)
	}
	return data, nil
}

// fresh refuses what expired.
func (u *updater) fresh(file string, expires time.Time) error {
	if !u.set.RefTime.After(expires) {
		return nil
	}
	behind := ""
	if u.set.RefTime.After(u.clock.Now) {
		behind = " at least, whatever the clock says: " + stamp(u.clock.Now)
	}
	return explain(file,
		fmt.Errorf("%w on %s, and it is %s%s",
			ErrExpired, stamp(expires), stamp(u.set.RefTime), behind))
}

// since moves the reference time forward to the time of the timestamp's
// signature, which is in the past, and checks again what was fresh before. The
// node stores no other time, in particular not the clock's: a clock that was
// ahead once would make everything expire for ever. If a signer's clock was
// wrong, the next timestamp by the same key corrects it.
func (u *updater) since(signed time.Time) error {
	if u.clock == (Clock{}) || !signed.After(u.set.RefTime) {
		return nil
	}
	u.set.RefTime = signed
	return cmp.Or(u.fresh("root.json", u.set.Root.Signed.Expires),
		u.fresh("timestamp.json", u.set.Timestamp.Signed.Expires))
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// SignedField of timestamp.json is when it was signed, in RFC 3339. TUF has
// only the time until which it is good, and lets clients ignore fields that
// they do not know (specification, 4.1).
const SignedField = "x-loam-signed"

// signedAt returns when a timestamp was signed, the zero time if it does not
// say.
func signedAt(m *metadata.Metadata[metadata.TimestampType]) time.Time {
	text, _ := m.Signed.UnrecognizedFields[SignedField].(string)
	at, _ := time.Parse(time.RFC3339, text)
	return at
}
