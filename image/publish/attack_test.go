package publish

import (
	"bytes"
	"context"
	"crypto"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/image/meter"
	"github.com/loam-os/loam/image/repository"
)

func TestANodeSeesWhatIsPublishedNewestFirst(t *testing.T) {
	f := newFixture(t)
	if list := f.updated(); len(list) != 0 {
		t.Errorf("a new repository has %v", list)
	}

	old := f.publish("0.9.0")
	fresh := f.publish("0.10.0")
	if diff := cmp.Diff([]repository.Release{fresh, old}, f.updated()); diff != "" {
		t.Error(diff)
	}

	ix, err := fresh.Fetch(t.Context(), f.store())
	if err != nil || ix.Version != "0.10.0" || ix.Epoch != 1 {
		t.Errorf("%+v, %v", ix, err)
	}

	if fresh.Index != "loam-node-os_0.10.0_x86-64.index.json" {
		t.Errorf("index %s", fresh.Index)
	}
}

// TestWithoutNewsNothingIsWritten: neither for the same metadata, nor more than
// once for a new timestamp.
func TestWithoutNewsNothingIsWritten(t *testing.T) {
	f := newFixture(t)
	f.publish("0.2.0")
	f.updated()
	count := &counting{Records: f.node}
	check := func(want int) {
		t.Helper()
		count.writes = 0
		_, err := repository.Update(t.Context(), f.store(), count, f.read("metadata/1.root.json"),
			repository.Clock{Now: f.now})
		if err != nil || count.writes != want {
			t.Errorf("%d writes, want %d, %v", count.writes, want, err)
		}
	}

	check(0)
	f.ok(f.refresh(f.keys, f.now))
	check(1)
	check(0)
}

type counting struct {
	repository.Records
	writes int
}

func (c *counting) Write(name string, data []byte) error {
	c.writes++
	return c.Records.Write(name, data)
}

// The tests of what a node reads are here, not in image/repository: it takes a
// publisher with keys to attack it.

// TestAttacks: the node has seen 0.2.0, or nothing; then the server turns
// against it.
func TestAttacks(t *testing.T) {
	for _, tc := range []struct {
		name   string
		attack func(f *fixture)
		want   error
		err    string
	}{
		{
			"frozen for more than a week",
			func(f *fixture) {
				f.now = f.now.Add(8 * day)
			},
			repository.ErrExpired,
			"timestamp.json",
		},
		{
			"frozen, and the node starts again",
			func(f *fixture) {
				f.now = f.now.Add(8 * day)
				f.node = memory{}
			},
			repository.ErrExpired,
			"timestamp.json: expired on 2026-11-28T12:00:00Z",
		},
		{
			"an old copy, whole",
			func(f *fixture) {
				old := f.copy()
				f.publish("0.3.0")
				f.updated()
				f.dir = old
			},
			repository.ErrRollback,
			"timestamp.json",
		},
		{
			"an old snapshot under a new timestamp",
			func(f *fixture) {
				st := f.state()
				old := *st.timestamp.Signed.Meta["snapshot.json"]
				f.publish("0.3.0")
				f.updated()

				f.stamp(func(m *metadata.Metadata[metadata.TimestampType]) {
					m.Signed.Meta["snapshot.json"] = &old
				})
			},
			repository.ErrRollback,
			"timestamp.json",
		},
		{
			"old targets under a new snapshot",
			func(f *fixture) {
				st := f.state()
				old := *st.snapshot.Signed.Meta["targets.json"]
				f.publish("0.3.0")
				f.updated()

				f.snap(func(m *metadata.Metadata[metadata.SnapshotType]) {
					m.Signed.Meta["targets.json"] = &old
				})
			},
			repository.ErrRollback,
			"snapshot.json",
		},
		{
			"a root of the version before",
			func(f *fixture) {
				f.write("metadata/2.root.json", f.read("metadata/1.root.json"))
			},
			repository.ErrRollback,
			"2.root.json",
		},
		{
			"a root that skips a version",
			func(f *fixture) {
				f.root(func(m *metadata.RootType) { m.Version = 3 }, f.keys.Root...)
			},
			repository.ErrRollback,
			"2.root.json",
		},
		{
			"a root by somebody else",
			func(f *fixture) {
				f.root(func(m *metadata.RootType) {}, f.newKeys(1).Root...)
			},
			repository.ErrUnsigned,
			"2.root.json",
		},
		{
			"a root that does not sign itself",
			func(f *fixture) {
				other := f.newKeys(1).Root[0]
				f.root(func(m *metadata.RootType) {
					m.Roles[metadata.ROOT].KeyIDs = nil
					f.ok(addKey(m, metadata.ROOT, other))
				}, f.keys.Root...)
			},
			repository.ErrUnsigned,
			"2.root.json",
		},
		{
			"a root that expired",
			func(f *fixture) {
				f.root(func(m *metadata.RootType) { m.Expires = f.now.Add(-1) }, f.keys.Root...)
			},
			repository.ErrExpired,
			"root.json: expired on",
		},
		{
			"a timestamp by another key",
			func(f *fixture) {
				f.keys.Timestamp = f.newKeys(1).Timestamp
				f.stamp(func(*metadata.Metadata[metadata.TimestampType]) {})
			},
			repository.ErrUnsigned,
			"timestamp.json",
		},
		{
			"a timestamp by the key of the snapshot",
			func(f *fixture) {
				f.keys.Timestamp = f.keys.Snapshot
				f.stamp(func(*metadata.Metadata[metadata.TimestampType]) {})
			},
			repository.ErrUnsigned,
			"timestamp.json",
		},
		{
			"a snapshot by another key",
			func(f *fixture) {
				f.keys.Snapshot = f.newKeys(1).Snapshot
				f.snap(func(*metadata.Metadata[metadata.SnapshotType]) {})
			},
			repository.ErrUnsigned,
			"snapshot.json",
		},
		{
			"targets by another key",
			func(f *fixture) {
				f.keys.Targets = f.newKeys(1).Targets
				f.ok(f.signer().commit(f.state(), func() error { return nil }))
			},
			repository.ErrUnsigned,
			"targets.json",
		},
		{
			"a byte of the timestamp changed",
			func(f *fixture) {
				f.write("metadata/timestamp.json",
					bytes.Replace(f.read("metadata/timestamp.json"), []byte("2026-11-28"),
						[]byte("2036-11-28"), 1))
			},
			repository.ErrUnsigned,
			"timestamp.json",
		},
		{
			"the snapshot of another time",
			func(f *fixture) {
				f.publish("0.3.0")
				f.write("metadata/3.snapshot.json", f.read("metadata/2.snapshot.json"))
			},
			repository.ErrMixed,
			"3.snapshot.json",
		},
		{
			"the targets of another time",
			func(f *fixture) {
				f.publish("0.3.0")
				f.write("metadata/3.targets.json", f.read("metadata/2.targets.json"))
			},
			repository.ErrMixed,
			"3.targets.json",
		},
		{
			"a snapshot that expired",
			func(f *fixture) {
				s := f.signer()
				s.expiries.Snapshot = -day
				f.ok(s.commit(f.state(), func() error { return nil }))
			},
			repository.ErrExpired,
			"snapshot.json: expired on",
		},
		{
			"targets that expired",
			func(f *fixture) {
				s := f.signer()
				s.expiries.Targets = -day
				f.ok(s.commit(f.state(), func() error { return nil }))
			},
			repository.ErrExpired,
			"targets.json: expired",
		},
		{
			"a timestamp without end",
			func(f *fixture) {
				f.write("metadata/timestamp.json", make([]byte, 16<<10+1))
			},
			repository.ErrTooLarge,
			"timestamp.json",
		},
		{
			"a root without end",
			func(f *fixture) {
				f.write("metadata/2.root.json", make([]byte, 512<<10+1))
			},
			repository.ErrTooLarge,
			"2.root.json",
		},
		{
			"a snapshot longer than signed",
			func(f *fixture) {
				f.publish("0.3.0")
				f.write("metadata/3.snapshot.json", append(f.read("metadata/3.snapshot.json"), ' '))
			},
			repository.ErrTooLarge,
			"3.snapshot.json",
		},
		{
			"targets longer than signed",
			func(f *fixture) {
				f.publish("0.3.0")
				f.write("metadata/3.targets.json", append(f.read("metadata/3.targets.json"), ' '))
			},
			repository.ErrTooLarge,
			"3.targets.json",
		},
		{
			"no timestamp",
			func(f *fixture) {
				f.ok(os.Remove(filepath.Join(f.dir, "metadata/timestamp.json")))
			},
			repository.ErrNotFound,
			"timestamp.json",
		},
		{
			"no JSON",
			func(f *fixture) {
				f.write("metadata/timestamp.json", []byte("<html>"))
			},
			repository.ErrInvalid,
			"timestamp.json",
		},
		{
			"a snapshot where the timestamp is",
			func(f *fixture) {
				f.write("metadata/timestamp.json", f.read("metadata/2.snapshot.json"))
			},
			repository.ErrInvalid,
			"timestamp.json",
		},
		{
			"a timestamp that names no snapshot",
			func(f *fixture) {
				f.stamp(func(m *metadata.Metadata[metadata.TimestampType]) { m.Signed.Meta = nil })
			},
			repository.ErrInvalid,
			"meta snapshot.json",
		},
		{
			"a timestamp with a snapshot that is null",
			func(f *fixture) {
				f.stamp(func(m *metadata.Metadata[metadata.TimestampType]) {
					m.Signed.Meta["snapshot.json"] = nil
				})
			},
			repository.ErrInvalid,
			"meta snapshot.json",
		},
		{
			"a timestamp without the snapshot's digest",
			func(f *fixture) {
				f.stamp(func(m *metadata.Metadata[metadata.TimestampType]) {
					m.Signed.Meta["snapshot.json"].Hashes = nil
				})
			},
			repository.ErrInvalid,
			"meta snapshot.json",
		},
		{
			"a specification of another age",
			func(f *fixture) {
				f.stamp(func(m *metadata.Metadata[metadata.TimestampType]) {
					m.Signed.SpecVersion = "2.0.0"
				})
			},
			repository.ErrInvalid,
			"spec_version",
		},
		{
			"a target that is null",
			func(f *fixture) {
				st := f.state()
				st.targets.Signed.Targets["x.index.json"] = nil
				f.ok(f.signer().commit(st, func() error { return nil }))
			},
			repository.ErrInvalid,
			"targets.json",
		},
		{
			"a key that is no ed25519 key",
			func(f *fixture) {
				f.root(func(m *metadata.RootType) {
					for _, key := range m.Keys {
						key.Value.PublicKey = "00"
					}
				}, f.keys.Root...)
			},
			repository.ErrInvalid,
			"2.root.json",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.publish("0.2.0")
			f.updated()
			tc.attack(f)
			before := bytes.Clone(f.node[repository.TrustedName])

			list, err := f.update()
			if !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.err) ||
				!strings.Contains(hint.Text(err), "\nhint: ") || list != nil {
				t.Fatalf("%v, error %v\nwant %v, %q and a hint", list, err, tc.want, tc.err)
			}

			if tc.want == repository.ErrRollback &&
				!bytes.Equal(before, f.node[repository.TrustedName]) &&
				strings.HasPrefix(tc.err, "timestamp") {
				t.Error("the node keeps the old one")
			}
		})
	}
}

func (f *fixture) signer() signer {
	return signer{
		dir:      f.dir,
		keys:     f.keys,
		expiries: DefaultExpiries(),
		now:      f.now,
	}
}

func (f *fixture) state() state {
	f.Helper()
	st, err := readState(f.Context(), f.dir, meter.None)
	f.ok(err)
	return st
}

// stamp signs a timestamp that was changed.
func (f *fixture) stamp(change func(*metadata.Metadata[metadata.TimestampType])) {
	f.Helper()
	st := f.state()
	change(st.timestamp)
	f.ok(f.signer().stamp(st))
}

// snap signs a snapshot that was changed, and a timestamp that names it.
func (f *fixture) snap(change func(*metadata.Metadata[metadata.SnapshotType])) {
	f.Helper()
	st := f.state()
	st.snapshot.Signed.Version++
	change(st.snapshot)
	text, err := put(f.signer(), fmt.Sprintf("%d.snapshot.json", st.snapshot.Signed.Version),
		st.snapshot, f.keys.Snapshot)
	f.ok(err)
	st.timestamp.Signed.Meta["snapshot.json"] = described(text, st.snapshot.Signed.Version)
	f.ok(f.signer().stamp(st))
}

// root writes a second root that was changed.
func (f *fixture) root(change func(*metadata.RootType), keys ...crypto.Signer) {
	f.Helper()
	st := f.state()
	st.root.Signed.Version = 2
	change(&st.root.Signed)
	_, err := put(f.signer(), "2.root.json", st.root, keys...)
	f.ok(err)
}

func TestFetchRefuses(t *testing.T) {
	for _, tc := range []struct {
		name   string
		attack func(f *fixture, r *repository.Release)
		want   error
	}{
		{"an index of another size", func(f *fixture, r *repository.Release) {
			f.write(r.Stored(), f.read(r.Stored())[1:])
		}, repository.ErrMixed},
		{"a longer index", func(f *fixture, r *repository.Release) {
			f.write(r.Stored(), append(f.read(r.Stored()), '\n'))
		}, repository.ErrTooLarge},
		{"another byte", func(f *fixture, r *repository.Release) {
			text := f.read(r.Stored())
			text[len(text)/2]++
			f.write(r.Stored(), text)
		}, repository.ErrMixed},
		{"the index of another release", func(f *fixture, r *repository.Release) {
			other := f.publish("0.3.0")
			f.write(r.Stored(), f.read(other.Stored()))
		}, repository.ErrMixed},
		{"no index", func(f *fixture, r *repository.Release) {
			f.ok(os.Remove(filepath.Join(f.dir, r.Stored())))
		}, repository.ErrNotFound},
		{"an index signed for another release", func(f *fixture, r *repository.Release) {
			r.Epoch = 2
		}, repository.ErrInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			r := f.publish("0.2.0")
			tc.attack(f, &r)

			_, err := r.Fetch(t.Context(), f.store())
			if !errors.Is(err, tc.want) || !strings.Contains(hint.Text(err), "\nhint: ") {
				t.Errorf("error %v, want %v", err, tc.want)
			}
		})
	}
}

// TestEntriesForLaterProgramsAreLeftOut: a node must not lose the
// releases that it knows how to take.
func TestEntriesForLaterProgramsAreLeftOut(t *testing.T) {
	f := newFixture(t)
	f.publish("0.2.0")
	st := f.state()
	good := *st.targets.Signed.Targets["loam-node-os_0.2.0_x86-64.index.json"]
	st.targets.Signed.Targets["loam-node-os_0.2.0_riscv64.index.json"] = &good
	other := good
	other.Custom = nil
	st.targets.Signed.Targets["loam-node-os_0.3.0_x86-64.index.json"] = &other
	st.targets.Signed.Targets["README"] = &other
	f.ok(f.signer().commit(st, func() error { return nil }))

	if list := f.updated(); len(list) != 1 || list[0].Version != "0.2.0" {
		t.Errorf("%+v", list)
	}
}

// TestDamageOfWhatWasKeptDoesNotEndUpdates: by itself, or in one of its parts.
func TestDamageOfWhatWasKeptDoesNotEndUpdates(t *testing.T) {
	f := newFixture(t)
	f.publish("0.2.0")
	f.updated()
	good, err := repository.Load(f.node)
	f.ok(err)

	for name, damage := range map[string]func(t *repository.Trusted){
		"all":  nil,
		"root": func(t *repository.Trusted) { t.Root = []byte("{}") },
		"timestamp": func(t *repository.Trusted) {
			t.Timestamp = []byte(`{"signed":{"_type":"timestamp","meta":{"snapshot.json":null}}}`)
		},
		"snapshot": func(t *repository.Trusted) { t.Snapshot = []byte("x") },
		"targets":  func(t *repository.Trusted) { t.Targets = nil },
	} {
		t.Run(name, func(t *testing.T) {
			f.node = memory{repository.TrustedName: []byte("{")}
			if damage != nil {
				bad := good
				damage(&bad)
				f.ok(bad.Save(f.node))
			}
			if list := f.updated(); len(list) != 1 {
				t.Errorf("%v", list)
			}
			if now, err := repository.Load(f.node); err != nil || !cmp.Equal(now, good) {
				t.Errorf("kept: %s, %v", cmp.Diff(good, now), err)
			}
		})
	}
}

// TestAStoreThatFailsIsNoVerdict: an error of the network is neither of the
// sentinels.
func TestAStoreThatFailsIsNoVerdict(t *testing.T) {
	f := newFixture(t)
	_, err := repository.Update(t.Context(), broken{}, f.node, f.read("metadata/1.root.json"),
		repository.Clock{Now: f.now})
	if !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("error %v", err)
	}
	for _, kind := range []error{
		repository.ErrExpired, repository.ErrRollback, repository.ErrUnsigned, repository.ErrMixed,
		repository.ErrInvalid, repository.ErrTooLarge, repository.ErrNotFound,
	} {
		if errors.Is(err, kind) {
			t.Errorf("error %v is %v", err, kind)
		}
	}
}

type broken struct{ repository.Store }

func (broken) Get(context.Context, string, int64) ([]byte, error) {
	return nil, io.ErrUnexpectedEOF
}
