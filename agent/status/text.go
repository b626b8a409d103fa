package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Clock is the format of a time of day, with its date.
const Clock = "2006-01-02 15:04:05 MST"

// indent is the column at which values begin.
const indent = 15

const (
	// minUnits is how many lines units have at least.
	minUnits = 3
	// maxValue is how many lines a value takes at most where lines are few.
	maxValue = 4
)

// table collects rows in groups.
type table struct {
	width, lines int
	now          time.Time
	uptime       time.Duration
	groups       [][]row
	units        []Unit
}

// row is a label and its value.
type row struct {
	label string
	lines []string
	// detail says that the row is left out first.
	detail bool
}

// group begins the next group.
func (t *table) group() { t.groups = append(t.groups, nil) }

// row adds a row. It omits a row without a value.
func (t *table) row(label, value string) { t.add(row{label: label}, value) }

// detail adds a row that is left out where lines are few.
func (t *table) detail(label, value string) { t.add(row{label: label, detail: true}, value) }

func (t *table) add(r row, value string) {
	if value == "" {
		return
	}
	r.lines = Wrap(ascii(value), t.width-indent)
	if t.lines > 0 && len(r.lines) > maxValue {
		r.lines = append(r.lines[:maxValue-1], "... (loam status)")
	}
	last := len(t.groups) - 1
	t.groups[last] = append(t.groups[last], r)
}

// Wrap breaks a text into lines of at most width bytes, at spaces if it can.
func Wrap(text string, width int) []string {
	var lines []string
	for text != "" {
		end := min(len(text), width)
		if end < len(text) {
			if space := strings.LastIndexByte(text[:end+1], ' '); space > 0 {
				end = space
			}
		}
		lines = append(lines, text[:end])
		text = strings.TrimLeft(text[end:], " ")
	}
	return lines
}

// String returns the page with the units at its end, and leaves out what it has no
// room for.
func (t *table) String() string {
	groups := t.groups
	if t.lines > 0 {
		room := t.lines - 2 - min(len(t.units), minUnits)
		groups = fit(groups, room)
	}

	var out strings.Builder
	out.WriteString(t.rule(""))
	for i, g := range groups {
		if i > 0 && t.lines == 0 && len(g) > 0 {
			out.WriteByte('\n')
		}
		for _, r := range g {
			out.WriteString(r.String())
		}
	}

	room := len(t.units)
	if t.lines > 0 {
		room = max(minUnits, t.lines-1-strings.Count(out.String(), "\n"))
	} else if len(t.units) > 0 {
		out.WriteByte('\n')
	}
	out.WriteString(row{label: "units", lines: t.unitLines(room)}.String())

	at := ""
	if !t.now.IsZero() {
		at = t.date(t.now) + " "
	}
	out.WriteString(t.rule(at))
	return out.String()
}

// rows returns all rows, with one for each unit.
func (t *table) rows() []row {
	all := slices.Concat(t.groups...)
	for _, u := range t.units {
		all = append(all, row{label: "unit", lines: []string{t.unit(u)}})
	}
	return all
}

// Sequences of console_codes(4): to the first column of the first line, erase the
// rest of the line, and erase the rest of the screen.
const (
	home      = "\x1b[H"
	eraseLine = "\x1b[K"
	eraseRest = "\x1b[J"
)

// InPlace returns what draws a page over all that is on a terminal, which has to be
// a column wider and a line higher than the page.
func InPlace(page string) string {
	return home + strings.ReplaceAll(page, "\n", eraseLine+"\r\n") + eraseRest
}

// fit leaves out details from the last on, until the rows take no more lines than
// there is room for.
func fit(groups [][]row, room int) [][]row {
	all := slices.Concat(groups...)
	count := func() (lines int) {
		for _, r := range all {
			lines += len(r.lines)
		}
		return lines
	}

	for i := len(all) - 1; i >= 0 && count() > room; i-- {
		if all[i].detail {
			all = slices.Delete(all, i, i+1)
		}
	}

	// What comes first matters most.
	for len(all) > 1 && count() > room {
		all = all[:len(all)-1]
	}
	return [][]row{all}
}

func (r row) String() string {
	var out strings.Builder
	label := r.label
	for _, line := range r.lines {
		out.WriteString(strings.TrimRight(fmt.Sprintf("  %-13s%s", label, line), " ") + "\n")
		label = ""
	}
	return out.String()
}

// rule returns the line at the top and at the end, with the time of the page.
func (t *table) rule(at string) string {
	text := "--- loam " + at
	return text + strings.Repeat("-", t.width-len(text)) + "\n"
}

// unitLines returns the lines of at most room units, unhealthy ones first.
func (t *table) unitLines(room int) []string {
	units := slices.Clone(t.units)
	slices.SortStableFunc(units, func(a, b Unit) int { return cmp.Compare(rank(a), rank(b)) })
	left := units[:0:0]
	if len(units) > room {
		left = units[room-1:]
		units = units[:room-1]
	}

	var lines []string
	for _, u := range units {
		lines = append(lines, t.unit(u))
	}
	if len(left) > 0 {
		lines = append(lines, more(left))
	}
	return lines
}

// unit returns the columns of a unit: name, state, since when.
func (t *table) unit(u Unit) string {
	mark := " "
	if !u.Settled {
		mark = "*"
	}

	state := mark + u.Active + "/" + u.Sub
	room := t.width - indent - 25 - 10
	name := ascii(u.Name)
	if len(name) > room {
		name = name[:room-2] + ".."
	}

	return fmt.Sprintf("%-*s%-25.24s%10s", room, name, state, since(u.Since))
}

// more sums up units that there is no room for.
func more(units []Unit) string {
	bad := 0
	for _, u := range units {
		bad += 1 - rank(u)
	}
	if bad == 0 {
		return fmt.Sprintf("and %d more, all as wanted", len(units))
	}
	return fmt.Sprintf("and %d more, %d of them not as wanted: loam status", len(units), bad)
}

// rank is 0 for a unit that should be shown first, else 1.
func rank(u Unit) int {
	if u.Settled {
		return 1
	}
	return 0
}

// date returns a time with its day.
func (t *table) date(at time.Time) string { return at.UTC().Format(Clock) }

// when returns a time that is to come, and how long that is from now.
func (t *table) when(at time.Time) string {
	text := t.date(at)
	if left := at.Sub(t.now); !t.now.IsZero() && left > 0 {
		text += " (in " + left.Round(time.Second).String() + ")"
	}
	return text
}

func since(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return "at " + seconds(d)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// count returns n of a thing, in words.
func count(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func join(words ...string) string { return strings.TrimSpace(strings.Join(words, " ")) }

// optional returns text after before, "" if text is empty.
func optional(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// ascii replaces everything in text that a console may not be able to show or
// may take for a command.
func ascii(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, text)
}
