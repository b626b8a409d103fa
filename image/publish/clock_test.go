package publish

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/image/repository"
)

// TestTheClock: the repository has a release, signed at start. Targets are good
// for a year and root.json for two, the timestamp for a week.
func TestTheClock(t *testing.T) {
	const year = 365 * day
	refreshed := func(after time.Duration) func(f *fixture) {
		return func(f *fixture) {
			f.ok(f.refresh(f.keys, f.now.Add(after)))
		}
	}

	for _, tc := range []struct {
		name   string
		signed func(f *fixture)
		clock  repository.Clock

		// time is what expiries are compared with, by which err expired, "" for
		// nothing.
		time time.Time
		err  string
	}{
		{"right", refreshed(0), repository.Clock{Now: start.Add(day)}, start.Add(day), ""},
		{
			"of a machine without a battery",
			refreshed(0),
			repository.Clock{Now: time.Unix(0, 0)},
			start,
			"",
		},
		{
			"the same, of an image that is newer than the timestamp",
			refreshed(0),
			repository.Clock{Now: time.Unix(0, 0), Built: start.Add(day)},
			start.Add(day),
			"",
		},
		{
			"set back, for a repository that was frozen before the image was built",
			refreshed(0),
			repository.Clock{Now: start, Built: start.Add(8 * day)},
			start.Add(8 * day),
			"timestamp.json",
		},
		{
			"set back, for a snapshot that expired before the timestamp was signed",
			refreshed(year + day),
			repository.Clock{Now: start},
			start.Add(year + day),
			"snapshot.json",
		},
		{
			"set back, for a root.json that expired before",
			refreshed(2*year + day),
			repository.Clock{Now: start},
			start.Add(2*year + day),
			"root.json",
		},
		{
			"ahead",
			refreshed(0),
			repository.Clock{Now: start.Add(20 * year)},
			start.Add(20 * year),
			"root.json",
		},
		{
			"of a signer who does not say when",
			func(f *fixture) {
				st := f.state()
				st.timestamp.Signed.Version++
				st.timestamp.Signed.UnrecognizedFields = nil
				_, err := put(f.signer(), "timestamp.json", st.timestamp, f.keys.Timestamp)
				f.ok(err)
			},
			repository.Clock{Now: time.Unix(0, 0)},
			time.Unix(0, 0),
			"",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFixture(t)
			f.publish("0.2.0")
			tc.signed(f)

			for range 2 { // What it keeps of the first time changes nothing.
				news, err := repository.Update(t.Context(), f.store(), f.node,
					f.read("metadata/1.root.json"), tc.clock)
				if tc.err == "" &&
					(err != nil || len(news.Releases) != 1 || !news.Time.Equal(tc.time)) {
					t.Fatalf("%v, %v, want %v", news, err, tc.time)
				}

				if tc.err != "" &&
					(!errors.Is(err, repository.ErrExpired) ||
						!strings.Contains(err.Error(), tc.err+": expired") ||
						!strings.Contains(err.Error(), "it is "+rfc3339(tc.time)) ||
						tc.time.After(tc.clock.Now) != strings.Contains(err.Error(),
							"whatever the clock says: "+rfc3339(tc.clock.Now))) {
					t.Fatalf("%v, %v, want %s to have expired by %v", news, err, tc.err, tc.time)
				}
			}
		})
	}
}

// TestAWrongClockIsNotRemembered: neither the node's own wrong clock nor the
// signer's, once it is correct again.
func TestAWrongClockIsNotRemembered(t *testing.T) {
	f := newFixture(t)
	f.publish("0.2.0")
	f.now = start.Add(10000 * day)
	if _, err := f.update(); !errors.Is(err, repository.ErrExpired) {
		t.Errorf("error %v", err)
	}

	f.ok(f.refresh(f.keys, f.now))
	if _, err := f.update(); !errors.Is(err, repository.ErrExpired) {
		t.Errorf("error %v", err)
	}

	f.now = start
	if _, err := f.update(); !errors.Is(err, repository.ErrExpired) {
		t.Errorf("signed in the future: %v", err)
	}

	f.ok(f.refresh(f.keys, f.now))
	if list := f.updated(); len(list) != 1 {
		t.Errorf("%v", list)
	}
}

// TestAStolenTimestampKeyThatSignsInTheFuture: new keys end it.
func TestAStolenTimestampKeyThatSignsInTheFuture(t *testing.T) {
	f := newFixture(t)
	f.publish("0.2.0")
	honest := f.copy()
	thief := f.signer()
	thief.now = start.Add(10000 * day)
	st := f.state()
	st.timestamp.Signed.Version = 1 << 40
	f.ok(thief.stamp(st))

	if _, err := f.update(); !errors.Is(err, repository.ErrExpired) {
		t.Fatalf("error %v", err)
	}

	f.dir = honest
	fresh := f.newKeys(1)
	f.ok(Rotate(f.dir, f.keys, fresh, 1, DefaultExpiries(), f.now))

	if list := f.updated(); len(list) != 1 {
		t.Errorf("%v", list)
	}
}

func rfc3339(t time.Time) string { return t.UTC().Format(time.RFC3339) }
