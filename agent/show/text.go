package show

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/plan"
)

// String returns the difference as text: all changes, a line each, and then the
// content by lines, as patch(1) accepts it.
func (d Difference) String() string {
	var out strings.Builder
	out.WriteString(d.list(File.about))
	for _, f := range d.Files {
		if f.Diff != "" {
			out.WriteString("\n" + f.Diff)
		}
	}
	return out.String()
}

// Stat returns the changes, a line each, with the number of lines that each file
// gains and loses.
func (d Difference) Stat() string {
	return d.list(func(f File) string {
		return strings.TrimSpace(f.about() + "  " + f.count())
	})
}

// list returns the changes, a line each, with what about says of a file.
func (d Difference) list(about func(File) string) string {
	if len(d.Files)+len(d.Units) == 0 {
		return fmt.Sprintf("%s and %s are the same\n", cmp.Or(d.From, "nothing"), d.To)
	}

	var out strings.Builder
	fmt.Fprintf(&out, "from %s to %s\n", cmp.Or(d.From, "nothing"), d.To)

	var files, units [][3]string
	for _, f := range d.Files {
		files = append(files, [3]string{string(f.Change), f.Path, about(f)})
	}

	for _, u := range d.Units {
		units = append(units, [3]string{string(u.Change), u.Name, u.about()})
	}

	columns(&out, "files", files)
	if slices.ContainsFunc(d.Files, func(f File) bool { return f.Withheld == secret }) {
		out.WriteString("  (secret: others may not read it; --secrets shows it)\n")
	}

	columns(&out, "units", units)
	return out.String()
}

// count returns how many lines a file gains and loses, "" without a diff.
func (f File) count() string {
	const header = 3
	gained := 0
	lost := 0
	for i, line := range strings.Split(f.Diff, "\n") {
		switch {
		case i < header:
		case strings.HasPrefix(line, "+"):
			gained++
		case strings.HasPrefix(line, "-"):
			lost++
		}
	}
	if f.Diff == "" {
		return ""
	}
	return fmt.Sprintf("+%d -%d", gained, lost)
}

// maxName is the widest column of names: a few long ones do not move the rest.
const maxName = 40

// columns writes rows under a heading, in columns.
func columns(out *strings.Builder, heading string, rows [][3]string) {
	if len(rows) == 0 {
		return
	}

	width := 0
	for _, row := range rows {
		if len(row[1]) <= maxName {
			width = max(width, len(row[1]))
		}
	}

	out.WriteString(heading + "\n")
	for _, row := range rows {
		out.WriteString(strings.TrimRight(fmt.Sprintf("  %-8s %-*s  %s",
			row[0], width, row[1], row[2]), " ") + "\n")
	}
}

// about describes the changes of a file other than its lines.
func (f File) about() string {
	var all []string
	if of := arrow(f.Before, f.After, Side.kind); of != "" {
		all = append(all, of)
	}
	if f.Withheld != "" {
		all = append(all, f.Withheld, arrow(f.Before, f.After, Side.content))
	}
	return strings.Join(all, ", ")
}

func (s Side) kind() string {
	if s.Target != "" {
		return "link to " + s.Target
	}
	return s.Mode
}

func (s Side) content() string {
	if s.Target != "" {
		return "link"
	}
	return strings.TrimSpace(Size(s.Size) + fmt.Sprintf(" %.12s", s.Digest))
}

// arrow returns "before -> after", or one of them if both are the same.
func arrow(before, after *Side, of func(Side) string) string {
	switch {
	case before == nil:
		return of(*after)
	case after == nil || of(*before) == of(*after):
		return of(*before)
	}
	return of(*before) + " -> " + of(*after)
}

func (u Unit) about() string {
	was := strings.Join(u.Was, ", ")
	is := strings.Join(u.Is, ", ")
	switch {
	case u.Change != plan.Changed:
		return was + is
	case was == "":
		return "is " + is
	case is == "":
		return "was " + was
	}
	return "was " + was + "; is " + is
}
