// Package window has the maintenance window in which a machine may restart.
package window

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Window is a period of each day, or of some days, in UTC, as all times of a
// node, unless [Window.In] sets another zone. The zero Window is always open.
type Window struct {
	set      bool
	days     [7]bool       // by the time.Weekday on which it begins
	from, to time.Duration // on the clock since midnight; to is after from
	zone     *time.Location
}

var weekdays = []string{"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"}

// Parse reads "22:00-04:00", "Sat,Sun 00:00-24:00" or "Mon-Fri 01:30-05:00"; ""
// is always open.
func Parse(text string) (w Window, err error) {
	if text == "" {
		return w, nil
	}

	days, hours, ok := strings.Cut(text, " ")
	if !ok {
		days = "Sun-Sat"
		hours = text
	}

	for part := range strings.SplitSeq(days, ",") {
		first, last, ok := strings.Cut(part, "-")
		if !ok {
			last = first
		}

		from := slices.Index(weekdays, first)
		to := slices.Index(weekdays, last)
		if from < 0 || to < 0 {
			return w, fmt.Errorf("%.20q: days are Mon, Tue, Wed, Thu, Fri, Sat, Sun", part)
		}

		for w.days[from] = true; from != to; w.days[from] = true {
			from = (from + 1) % 7
		}
	}

	first, last, _ := strings.Cut(hours, "-")
	from, fromOK := clock(first)
	to, toOK := clock(last)
	if !fromOK || !toOK || from == 24*time.Hour || from == to {
		return w, fmt.Errorf("%.20q: want two times of day, such as 22:00-04:00", hours)
	}

	w.set = true
	w.from = from
	w.to = to
	if to < from {
		w.to += 24 * time.Hour
	}

	return w, nil
}

// clock reads HH:MM, to 24:00, as the time since midnight.
func clock(text string) (time.Duration, bool) {
	if text == "24:00" {
		return 24 * time.Hour, true
	}
	t, err := time.Parse("15:04", text)
	return time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute, err == nil &&
		len(text) == len("15:04")
}

// In returns w by the clocks of a zone.
func (w Window) In(zone *time.Location) Window {
	w.zone = zone
	return w
}

// Opens returns when the window is next open, which is now if it is open. It is open while
// the clocks of the zone show a time of it: of an hour that summer time skips, none, and of
// one that is repeated, each time twice.
func (w Window) Opens(now time.Time) time.Time {
	if !w.set {
		return now
	}

	zone := w.zone
	if zone == nil {
		zone = time.UTC
	}

	// Until the next change of the clocks, they are as far from UTC as now. time.Date does
	// not say what it makes of a time that they skip or repeat.
	for at := now.In(zone); ; {
		_, offset := at.Zone()
		_, change := at.ZoneBounds()

		shown := at.UTC().Add(time.Duration(offset) * time.Second)
		wait := w.shows(shown).Sub(shown)
		if opens := at.Add(wait); change.IsZero() || opens.Before(change) {
			if opens.Equal(now) {
				return now
			}
			return opens.Round(0)
		}
		at = change
	}
}

// shows returns when clocks that never change, and show now, next show a time of the
// window.
func (w Window) shows(now time.Time) time.Time {
	year, month, today := now.Date()
	for day := today - 1; ; day++ {
		// Start at yesterday, whose window may extend past midnight.
		midnight := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
		closes := midnight.Add(w.to)
		if !w.days[midnight.Weekday()] || !now.Before(closes) {
			continue
		}
		if opens := midnight.Add(w.from); now.Before(opens) {
			return opens
		}
		return now
	}
}
