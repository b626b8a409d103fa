package directive

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var shorthands = strings.Fields(`minutely hourly daily monthly weekly yearly annually anually
	quarterly semi-annually semiannually bi-annually biannually`)

var zone = regexp.MustCompile(`^UTC$|^[A-Z][A-Za-z_]+(/[A-Za-z0-9_+-]+)+$`)

var weekdays = regexp.MustCompile(`(?i)^(` + weekday + `)((\.\.|-|,)(` + weekday + `))*,?$`)

const weekday = `mon(day)?|tue(sday)?|wed(nesday)?|thu(rsday)?|fri(day)?|sat(urday)?|sun(day)?`

// isCalendar reports whether value is a calendar event (systemd.time(7)).
func isCalendar(value string) bool {
	words := strings.Fields(value)
	if len(words) > 1 && isZone(words[len(words)-1]) {
		words = words[:len(words)-1]
	}

	if len(words) == 1 && (slices.Contains(shorthands, strings.ToLower(words[0])) ||
		(strings.HasPrefix(words[0], "@") && unsigned(0, 1<<43)(words[0][1:]))) {
		return true
	}

	if len(words) > 0 && weekdays.MatchString(words[0]) {
		words = words[1:]
		if len(words) == 0 {
			return true
		}
	}

	switch len(words) {
	case 1:
		return isDate(words[0]) || isTime(words[0])
	case 2:
		return isDate(words[0]) && isTime(words[1])
	}
	return false
}

// isZone reports whether word looks like a time zone. Those of the node are not
// known here.
func isZone(word string) bool {
	return zone.MatchString(word)
}

func isDate(word string) bool {
	last := strings.LastIndexAny(word, "-~")
	if last < 0 {
		return false
	}

	months := word[:last]
	if i := strings.LastIndexByte(months, '-'); i >= 0 {
		if !isComponent(months[:i], 0, 2199) {
			return false
		}
		months = months[i+1:]
	}
	return isComponent(months, 1, 12) && isComponent(word[last+1:], 1, 31)
}

func isTime(word string) bool {
	parts := strings.Split(word, ":")
	if len(parts) < 2 || len(parts) > 3 {
		return false
	}
	for i, part := range parts {
		if !isComponent(part, 0, []float64{23, 59, 60}[i]) {
			return false
		}
	}
	return true
}

// isComponent reports whether text is a part of a date or a time: *, or a list
// of numbers and ranges, each with or without a repetition.
func isComponent(text string, low, high float64) bool {
	for item := range strings.SplitSeq(text, ",") {
		values, step, repeats := strings.Cut(item, "/")
		if repeats {
			if number, err := strconv.ParseFloat(step, 64); err != nil || number <= 0 {
				return false
			}
		}
		if values == "*" {
			continue
		}

		first, last, isRange := strings.Cut(values, "..")
		from, err := strconv.ParseFloat(first, 64)
		if err != nil || from < low || from > high {
			return false
		}
		if !isRange {
			continue
		}
		if to, err := strconv.ParseFloat(last, 64); err != nil || to < from || to > high {
			return false
		}
	}
	return true
}
