package window

import (
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	for _, test := range []struct{ window, now, opens string }{ // 2026-11-22 is a Sunday.
		{"", "2026-11-22 12:00", "2026-11-22 12:00"},
		{"22:00-04:00", "2026-11-22 12:00", "2026-11-22 22:00"},
		{"22:00-04:00", "2026-11-22 22:00", "2026-11-22 22:00"},
		{"22:00-04:00", "2026-11-22 03:59", "2026-11-22 03:59"},
		{"22:00-04:00", "2026-11-22 04:00", "2026-11-22 22:00"},
		{"Sun 00:00-24:00", "2026-11-22 23:59", "2026-11-22 23:59"},
		{"Sun 00:00-24:00", "2026-11-23 00:00", "2026-11-29 00:00"},
		{"Sat 22:00-04:00", "2026-11-22 03:00", "2026-11-22 03:00"}, // which began on Saturday
		{"Sun 22:00-04:00", "2026-11-22 03:00", "2026-11-22 22:00"},
		{"Mon-Fri 01:30-05:00", "2026-11-21 12:00", "2026-11-23 01:30"},
		{"Fri-Mon 01:30-05:00", "2026-11-24 12:00", "2026-11-27 01:30"},
		{"Tue,Thu 10:00-11:00", "2026-11-24 11:00", "2026-11-26 10:00"},
	} {
		w, err := Parse(test.window)
		if err != nil {
			t.Errorf("%s: %v", test.window, err)
			continue
		}
		now, err := time.Parse("2006-01-02 15:04", test.now)
		if got := w.Opens(now).Format("2006-01-02 15:04"); err != nil || got != test.opens {
			t.Errorf("%s at %s opens %s, want %s", test.window, test.now, got, test.opens)
		}
	}

	for _, bad := range []string{
		"always", "22:00", "22:00-22:00", "24:00-01:00", "25:00-01:00", "7:00-8:00",
		"Sonntag 22:00-04:00", "Mon- 22:00-04:00", "Mon 22:00", " 22:00-04:00", "22:00-04:00 Mon",
	} {
		if _, err := Parse(bad); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// FuzzParse checks that every window opens within a week.
func FuzzParse(f *testing.F) {
	f.Add("Mon-Fri,Sun 22:00-04:00", int64(1e9))
	f.Fuzz(func(t *testing.T, text string, at int64) {
		w, err := Parse(text)
		if err != nil {
			return
		}
		now := time.Unix(at%1e10, 0)
		opens := w.Opens(now)
		if opens.Before(now) || opens.Sub(now) > 7*24*time.Hour || !w.Opens(opens).Equal(opens) {
			t.Errorf("%q at %s opens %s", text, now, opens)
		}
	})
}

func TestWindowInAZone(t *testing.T) {
	berlin := load(t, "Europe/Berlin")

	// Summer time begins on 2026-03-29 at 02:00 and ends on 2026-10-25 at 03:00.
	for _, test := range []struct{ name, window, now, opens string }{
		{"in winter", "22:00-04:00", "2026-01-10 12:00", "2026-01-10 21:00"},
		{"in summer", "22:00-04:00", "2026-07-10 12:00", "2026-07-10 20:00"},
		{"past midnight of the zone", "Sat 23:00-01:00", "2026-07-11 22:30", "2026-07-11 22:30"},
		{"the day is that of the zone", "Sun 00:00-24:00", "2026-07-11 21:00", "2026-07-11 22:00"},
		{"an hour that is skipped", "02:00-03:00", "2026-03-29 00:30", "2026-03-30 00:00"},
		{"a night without an hour", "01:00-04:00", "2026-03-29 01:59", "2026-03-29 01:59"},
		{"closed after that night", "01:00-04:00", "2026-03-29 02:00", "2026-03-29 23:00"},
		{"a night with an hour more", "01:00-04:00", "2026-10-25 02:59", "2026-10-25 02:59"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, err := Parse(test.window)
			if err != nil {
				t.Fatal(err)
			}

			now, err := time.Parse("2006-01-02 15:04", test.now)
			got := w.In(berlin).Opens(now).UTC().Format("2006-01-02 15:04")
			if err != nil || got != test.opens {
				t.Errorf("opens %s, want %s", got, test.opens)
			}
		})
	}
}

// TestAWindowIsOpenWhileTheClocksShowIt has windows that begin or end in an hour that is
// skipped or repeated. Those of Lord Howe change by half an hour.
func TestAWindowIsOpenWhileTheClocksShowIt(t *testing.T) {
	const newYork, losAngeles = "America/New_York", "America/Los_Angeles"
	const berlin, lordHowe = "Europe/Berlin", "Australia/Lord_Howe"
	for _, test := range []struct{ name, zone, window, now, opens string }{
		{"begins in the hour that is skipped", newYork, "02:30-05:00",
			"2026-03-08T01:30:00-05:00", "2026-03-08T03:00:00-04:00"},
		{"begins in it", losAngeles, "02:30-05:00",
			"2026-03-08T01:59:00-08:00", "2026-03-08T03:00:00-07:00"},
		{"begins in it", berlin, "02:30-05:00",
			"2026-03-29T01:30:00+01:00", "2026-03-29T03:00:00+02:00"},
		{"begins in it", lordHowe, "02:15-05:00",
			"2026-10-04T01:45:00+10:30", "2026-10-04T02:30:00+11:00"},

		{"has begun before it, and ends in it", newYork, "01:00-02:30",
			"2026-03-08T01:59:00-05:00", "2026-03-08T01:59:00-05:00"},
		{"has ended in it", newYork, "01:00-02:30",
			"2026-03-08T03:00:00-04:00", "2026-03-09T01:00:00-04:00"},
		{"has ended in it", lordHowe, "01:00-02:15",
			"2026-10-04T02:30:00+11:00", "2026-10-05T01:00:00+11:00"},
		{"is skipped", newYork, "02:00-03:00",
			"2026-03-08T01:30:00-05:00", "2026-03-09T02:00:00-04:00"},
		{"of a week is skipped", losAngeles, "Sun 02:15-02:45",
			"2026-03-02T12:00:00-08:00", "2026-03-15T02:15:00-07:00"},

		{"begins in the hour that is repeated", newYork, "01:30-05:00",
			"2026-11-01T00:30:00-04:00", "2026-11-01T01:30:00-04:00"},
		{"begins in it once more", newYork, "01:30-05:00",
			"2026-11-01T01:00:00-05:00", "2026-11-01T01:30:00-05:00"},
		{"begins in it once more", lordHowe, "01:45-05:00",
			"2026-04-05T01:30:00+10:30", "2026-04-05T01:45:00+10:30"},
		{"ends in it", berlin, "01:00-02:30",
			"2026-10-25T02:30:00+02:00", "2026-10-25T02:00:00+01:00"},
		{"ends in it once more", berlin, "01:00-02:30",
			"2026-10-25T02:30:00+01:00", "2026-10-26T01:00:00+01:00"},
		{"is repeated", losAngeles, "01:15-01:30",
			"2026-11-01T01:30:00-07:00", "2026-11-01T01:15:00-08:00"},
	} {
		t.Run(test.name+" in "+test.zone, func(t *testing.T) {
			w, err := Parse(test.window)
			if err != nil {
				t.Fatal(err)
			}
			now, err := time.Parse(time.RFC3339, test.now)
			if err != nil {
				t.Fatal(err)
			}
			zone := load(t, test.zone)
			if got := w.In(zone).Opens(now).In(zone).Format(time.RFC3339); got != test.opens {
				t.Errorf("%s at %s opens %s, want %s", test.window, test.now, got, test.opens)
			}
		})
	}
}

// TestAWindowOpensAtTheFirstTimeThatIsShown compares each five minutes of some days with
// what a clock on the wall shows.
func TestAWindowOpensAtTheFirstTimeThatIsShown(t *testing.T) {
	for _, zone := range []*time.Location{
		load(t, "America/New_York"),
		load(t, "America/Los_Angeles"),
		load(t, "Europe/Berlin"),
		load(t, "Australia/Lord_Howe"),
	} {
		for _, change := range []time.Time{
			time.Date(2026, 3, 8, 0, 0, 0, 0, time.UTC),
			time.Date(2026, 3, 29, 0, 0, 0, 0, time.UTC),
			time.Date(2026, 4, 5, 0, 0, 0, 0, time.UTC),
			time.Date(2026, 10, 4, 0, 0, 0, 0, time.UTC),
			time.Date(2026, 10, 25, 0, 0, 0, 0, time.UTC),
			time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		} {
			for _, text := range []string{
				"02:00-03:00", "02:30-05:00", "01:30-02:15", "01:45-02:45", "23:00-01:35",
				"Sun 02:05-24:00", "Sat 22:00-02:30",
			} {
				w, err := Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				w = w.In(zone)

				var next time.Time
				for at := change.AddDate(0, 0, 3); at.After(change.AddDate(0, 0, -3)); {
					at = at.Add(-5 * time.Minute)
					if w.isShownBy(at.In(zone)) {
						next = at
					}
					if got := w.Opens(at); !next.IsZero() && !got.Equal(next) {
						t.Fatalf("%s of %s at %s opens %s, want %s", text, zone, at.In(zone),
							got.In(zone), next.In(zone))
					}
				}
			}
		}
	}
}

// isShownBy reports whether a clock on the wall shows a time of the window.
func (w Window) isShownBy(clock time.Time) bool {
	since := time.Duration(clock.Hour())*time.Hour + time.Duration(clock.Minute())*time.Minute
	day := clock.Weekday()
	before := (day + 6) % 7
	return (w.days[day] && w.from <= since && since < w.to) ||
		(w.days[before] && since+24*time.Hour < w.to)
}

func load(t *testing.T, zone string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	return z
}
