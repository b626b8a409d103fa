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
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}

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
