// Package window has the maintenance window in which a machine may restart.
package window

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Window is a period of each day, or of some days, in UTC, as all times of a
// node. The zero Window is always open.
type Window struct {
	set        bool
	days       [7]bool       // by the time.Weekday on which it begins
	from, long time.Duration // since midnight
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
	w.long = to - from
	if to < from {
		w.long += 24 * time.Hour
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

// Opens returns when the window is next open, which is now if it is open.
func (w Window) Opens(now time.Time) time.Time {
	if !w.set {
		return now
	}

	now = now.UTC()
	midnight := now.Truncate(24 * time.Hour) // of UTC: Go's zero time is a midnight, too
	for day := -1; ; day++ {
		// Start at yesterday, whose window may extend past midnight.
		opens := midnight.AddDate(0, 0, day).Add(w.from)
		switch {
		case !w.days[opens.Weekday()] || !now.Before(opens.Add(w.long)):
		case now.Before(opens):
			return opens
		default:
			return now
		}
	}
}
