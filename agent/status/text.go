package status

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
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
	// maxValue is how many lines of a page of 80 columns a value takes at most
	// where lines are few.
	maxValue = 4

	// MinWidth is the width of the narrowest page. A terminal with fewer columns
	// wraps its lines.
	MinWidth = 40
	// MinLines is how many lines the shortest page has.
	MinLines = 10
	// maxWidth is the width of the widest page: a reader does not follow a line
	// across a wide screen.
	maxWidth = 100
	// unitWidth is the narrowest page with a unit on one line.
	unitWidth = 72
)

// page lays out rows, in groups, and units. lines is 0 where there is room for any
// number.
type page struct {
	width, lines int
	now          time.Time
	groups       [][]row
	units        []Unit
}

// row is a label and its value.
type row struct {
	label string
	lines []string
	// detail says that the row is left out first, problem that it is left out last.
	detail, problem bool
}

// group begins the next group.
func (p *page) group() { p.groups = append(p.groups, nil) }

// row adds a row. It omits a row without a value.
func (p *page) row(label, value string) { p.add(row{label: label}, value) }

// detail adds a row that is left out where lines are few.
func (p *page) detail(label, value string) { p.add(row{label: label, detail: true}, value) }

// problem adds a row that is left out last.
func (p *page) problem(label, value string) { p.add(row{label: label, problem: true}, value) }

func (p *page) add(r row, value string) {
	if value == "" {
		return
	}
	r.lines = Wrap(ascii(value), p.width-indent)
	if most := p.maxLines(); p.lines > 0 && len(r.lines) > most {
		r.lines = append(r.lines[:most-1], "... (`loam status`)")
	}
	last := len(p.groups) - 1
	p.groups[last] = append(p.groups[last], r)
}

// maxLines returns how many lines a value takes at most where lines are few: more
// on a narrow page, as there are fewer words on each, but not all of the page.
func (p *page) maxLines() int {
	const usual = 80 - indent
	return max(maxValue, min(maxValue*usual/(p.width-indent), p.lines/3))
}

// command is what a text has in backquotes for a reader to type.
var command = regexp.MustCompile("`[^`]*`")

// heldSpace stands for a space at which Wrap breaks no line.
const heldSpace = "\x00"

// Wrap breaks a text into lines of at most width bytes, at spaces if it can. It
// keeps a command in backquotes whole if that fits on a line.
func Wrap(text string, width int) []string {
	text = command.ReplaceAllStringFunc(text, func(quoted string) string {
		if len(quoted) > width {
			return quoted
		}
		return strings.ReplaceAll(quoted, " ", heldSpace)
	})

	var lines []string
	for text != "" {
		end := min(len(text), width)
		if end < len(text) {
			if space := strings.LastIndexByte(text[:end+1], ' '); space > 0 {
				end = space
			}
		}
		lines = append(lines, strings.ReplaceAll(text[:end], heldSpace, " "))
		text = strings.TrimLeft(text[end:], " ")
	}
	return lines
}

// String returns the page with the units at its end, and leaves out what it has
// no room for.
func (p *page) String() string {
	groups := p.groups
	if p.lines > 0 {
		room := p.lines - 2 - min(len(p.allUnits()), minUnits)
		groups = fit(groups, room)
	}

	var out strings.Builder
	out.WriteString(p.rule(""))
	for i, g := range groups {
		if i > 0 && p.lines == 0 && len(g) > 0 {
			out.WriteByte('\n')
		}
		for _, r := range g {
			out.WriteString(r.String())
		}
	}

	units := p.allUnits()
	if p.lines > 0 {
		units = p.unitLines(max(minUnits, p.lines-1-strings.Count(out.String(), "\n")))
	} else if len(units) > 0 {
		out.WriteByte('\n')
	}
	out.WriteString(row{label: "units", lines: units}.String())

	at := ""
	if !p.now.IsZero() {
		at = date(p.now) + " "
	}
	out.WriteString(p.rule(at))
	return out.String()
}

// rows returns all rows, with one for each unit.
func (p *page) rows() []row {
	all := slices.Concat(p.groups...)
	for _, u := range p.units {
		all = append(all, row{label: "unit", lines: p.unit(u)})
	}
	return all
}

// Sequences of console_codes(4): to the first column of the first line, erase
// the rest of the line, and erase the rest of the screen.
const (
	home      = "\x1b[H"
	eraseLine = "\x1b[K"
	eraseRest = "\x1b[J"
)

// InPlace returns what draws a page over all that is on a terminal, which has
// to be a column wider and a line higher than the page.
func InPlace(page string) string {
	return home + strings.ReplaceAll(page, "\n", eraseLine+"\r\n") + eraseRest
}

// fit leaves out details from the last on, then what is no problem, until the
// rows take no more lines than there is room for.
func fit(groups [][]row, room int) [][]row {
	all := slices.Concat(groups...)
	count := func() (lines int) {
		for _, r := range all {
			lines += len(r.lines)
		}
		return lines
	}

	for _, mayGo := range []func(row) bool{
		func(r row) bool { return r.detail },
		func(r row) bool { return !r.problem },
	} {
		for i := len(all) - 1; i > 0 && count() > room; i-- {
			if mayGo(all[i]) {
				all = slices.Delete(all, i, i+1)
			}
		}
	}

	// The first item matters most.
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
func (p *page) rule(at string) string {
	text := "--- loam " + at
	return text + strings.Repeat("-", p.width-len(text)) + "\n"
}

// allUnits returns the lines of all units.
func (p *page) allUnits() []string { return p.unitLines(math.MaxInt) }

// unitLines returns at most room lines with units, unhealthy ones first.
func (p *page) unitLines(room int) []string {
	units := slices.Clone(p.units)
	slices.SortStableFunc(units, func(a, b Unit) int { return cmp.Compare(rank(a), rank(b)) })

	var lines []string
	for i, u := range units {
		of := p.unit(u)
		isLast := i == len(units)-1
		if len(lines)+len(of) > room || (len(lines)+len(of) == room && !isLast) {
			return append(lines, p.more(units[i:]))
		}
		lines = append(lines, of...)
	}
	return lines
}

// unit returns name, state, since when of a unit, in columns. On a narrow page the
// name has a line of its own.
func (p *page) unit(u Unit) []string {
	mark := " "
	if !u.Settled {
		mark = "*"
	}
	state := mark + u.Active + "/" + u.Sub
	at := since(time.Duration(u.Since))

	room := p.width - indent - 25 - 10
	if p.width < unitWidth {
		room = p.width - indent
	}
	name := ascii(u.Name)
	if len(name) > room {
		name = name[:room-2] + ".."
	}
	if p.width >= unitWidth {
		return []string{fmt.Sprintf("%-*s%-25.24s%10s", room, name, state, at)}
	}

	state = state[:min(len(state), room)]
	if len(state)+1+len(at) <= room {
		state += " " + at
	}
	return []string{name, strings.TrimRight(state, " ")}
}

// more sums up units that there is no room for.
func (p *page) more(units []Unit) string {
	bad := 0
	for _, u := range units {
		bad += 1 - rank(u)
	}
	switch narrow := p.width < unitWidth; {
	case bad == 0 && narrow:
		return fmt.Sprintf("and %d more, all well", len(units))
	case bad == 0:
		return fmt.Sprintf("and %d more, all as wanted", len(units))
	case narrow:
		return fmt.Sprintf("and %d more, %d not well", len(units), bad)
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
func date(at time.Time) string { return at.UTC().Format(Clock) }

// when returns a time that is to come, and how long that is from now.
func (p *page) when(at time.Time) string {
	text := date(at)
	if left := at.Sub(p.now); !p.now.IsZero() && left > 0 {
		text += " (in " + left.Round(time.Second).String() + ")"
	}
	return text
}

// since returns the time since kernel start at which a unit got its state, in at
// most 10 bytes; "" if it is not known.
func since(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < 999*time.Second:
		return "at " + seconds(d)
	case d < 100_000*time.Second:
		return fmt.Sprintf("at %.0f s", d.Seconds())
	}
	return fmt.Sprintf("at %.0f h", d.Hours())
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

// before returns text with separator after it, "" if text is empty.
func before(text, separator string) string {
	if text == "" {
		return ""
	}
	return text + separator
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
