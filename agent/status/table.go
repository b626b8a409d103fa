package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/config"
)

// Table formats s for a console of width columns, at least 64: plain ASCII, no
// longer lines, a newline at the end. It shows as many units as lines leave
// room for, unhealthy ones first, and all of them if lines is 0.
func (s Status) Table(width, lines int) string {
	t := table{width: max(width, 64)}
	t.node(s)
	end := table{width: t.width}
	end.notes(s.Notes, lines == 0)

	for _, w := range s.Warnings {
		end.row("warning", w)
	}

	for _, tty := range s.DebugShells {
		end.row("! shell", "debug shell open on "+tty)
	}

	end.rule()
	room := len(s.Units)
	if lines > 0 {
		room = lines - strings.Count(t.out.String()+end.out.String(), "\n")
	}

	t.units(s.Units, max(room, 3))
	return t.out.String() + end.out.String()
}

// notes shows the notes on the document, or as many as fit on a console.
func (t *table) notes(notes []config.Note, all bool) {
	const most = 2
	for i, n := range notes {
		if !all && i == most {
			t.row("", fmt.Sprintf("and %d more: loam status", len(notes)-most))
			return
		}
		t.row("note", n.String())
		if all {
			t.row("hint", n.Hint)
		}
	}
}

// node shows the status without its units.
func (t *table) node(s Status) {
	t.rule()
	t.row("phase", s.phase())

	if s.Reset != nil && s.Reset.Done {
		t.row("", "`loam apply` or another machine.yaml ends that")
	}

	t.error(s.Error)
	t.row("image", join(s.ImageID, s.ImageVersion)+optional(", slot ", s.Slot))
	t.upgrade(s.Upgrade)
	t.row("root hash", s.RootHash)
	t.row("kernel", s.Kernel)
	t.row("Secure Boot", s.SecureBoot)
	t.row("host name", s.Hostname)
	t.network(s.Network)
	t.row("generation", s.Generation)
	t.change(s.Change)
	if s.Awaited != nil {
		t.row("waits for", s.Awaited.Text(s.Uptime))
	}
	t.row("source", s.Source)
	t.row("missing", s.Missing)
	t.cluster(s.Cluster)

	if s.Held != nil {
		t.row("held", s.Held.Digest+" of the source: "+s.Held.Why)
	}

	for _, p := range s.Waits {
		t.row("held back", p.Path+" until "+strings.Join(p.URLs, " or ")+" answers")
	}

	t.row("wanted", s.wanted())
	if s.Drift.Repaired > 0 {
		t.row("drift", fmt.Sprintf("%s repaired, last %s at %s",
			count(s.Drift.Repaired, "path"), s.Drift.Last, seconds(s.Drift.At)))
	}

	t.volume(s.Volume)
	t.row("machine.yaml", s.Machine)
	t.row("files", fmt.Sprint(s.Files))
	t.row("uptime", seconds(s.Uptime)+" since kernel start")
}

// units shows at most room of them.
func (t *table) units(units []Unit, room int) {
	units = slices.Clone(units)
	slices.SortStableFunc(units, func(a, b Unit) int { return cmp.Compare(rank(a), rank(b)) })
	left := units[:0:0]
	if len(units) > room {
		left = units[room-1:]
		units = units[:room-1]
	}

	label := "units"
	for _, u := range units {
		t.line(fmt.Sprintf("  %-13s%s", label, t.unit(u)))
		label = ""
	}

	if len(left) > 0 {
		t.row("", more(left))
	}
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

// wanted returns what the configuration asks for beyond files and units.
func (s Status) wanted() string {
	u := s.Update
	if u == nil {
		return ""
	}

	words := []string{optional("OS version ", u.OSVersion), optional("kubelet ", u.Kubelet)}
	if !u.CertificateAuthorities.IsZero() {
		words = append(words, "new certificate authorities")
	}
	if !u.ServiceAccountKey.IsZero() {
		words = append(words, "a new service account key")
	}

	return strings.Join(slices.DeleteFunc(words, func(word string) bool { return word == "" }),
		", ")
}

func (s Status) phase() string {
	if r := s.Reset; r != nil {
		words := "under way"
		switch {
		case r.Done:
			words = "follows no configuration"
		case s.Phase == Failed:
			words = "not complete"
		}
		return join("reset", r.At.UTC().Format(clock)) + ": " + words
	}

	switch {
	case s.Phase == Applied && s.AppliedAt > 0:
		return "applied after " + seconds(s.AppliedAt)
	case s.Phase == Failed && s.isWellBefore():
		refused := "the new configuration"
		if s.RevertedFrom != "" {
			refused = number(s.RevertedFrom)
		}
		return "running " + number(s.Generation) + ", " + refused + " refused"
	}
	return string(s.Phase)
}

// isWellBefore reports whether the node refuses the newest configuration, and all
// units are as the generation before wants them.
func (s Status) isWellBefore() bool {
	unwell := func(u Unit) bool { return !u.Settled }
	return s.Refused && s.Generation != "" && !slices.ContainsFunc(s.Units, unwell)
}

// number returns the number in the name of a generation.
func number(name string) string {
	digits, _, _ := strings.Cut(name, "-")
	return digits
}

// AppliedLine is the line that the console prints once when a generation is
// applied.
func (s Status) AppliedLine() string {
	return fmt.Sprintf("loam: applied generation %s after %s", s.Generation, seconds(s.AppliedAt))
}

func (t *table) error(e *Error) {
	if e == nil {
		return
	}
	t.row("error",
		optional("", e.Document)+lineNumber(e.Line)+optional(" ", e.Path)+separator(e)+e.Problem)
	t.row("hint", e.Hint)
}

func (t *table) volume(v *Volume) {
	switch {
	case v == nil:
	case v.Device == "":
		t.row("data volume", "none: the kubelet does not start")
	case v.Size == 0:
		t.row("data volume", v.Device+" is gone")
	default:
		t.row("data volume",
			fmt.Sprintf("%s, %s, %.1f GiB", v.Device, v.FileSystem, float64(v.Size)/(1<<30)))
	}
	if v != nil {
		for _, w := range v.Warnings {
			t.row("warning", w)
		}
	}
}

func (t *table) cluster(c *Cluster) {
	switch {
	case c == nil:
		return
	case c.Connected:
		t.row("cluster", c.Server+", connected since "+c.Since.UTC().Format(clock))
		t.row("", c.Problem)
	default:
		t.row("cluster", c.Server+", not reached since "+c.Since.UTC().Format(clock))
		t.row("", c.Problem)
	}

	t.row("node", c.Node)
	t.row("waits for", c.Waits)
	if !c.Expires.IsZero() {
		t.row("certificate", "until "+c.Expires.UTC().Format(clock))
	}
}

func (t *table) network(n *Network) {
	if n == nil {
		return
	}

	words := map[NetworkSource]string{
		NetworkOfMachine: "of machine.yaml", NetworkKept: "as machine.yaml had it last",
		NetworkOfImage: "DHCP on every wired interface",
	}[n.From]

	if n.Next {
		words += "; another from the next boot on"
	}

	t.row("network", words)
	for _, i := range n.Interfaces {
		name := i.Name
		if i.As != "" && i.As != i.Name {
			name += " (" + i.As + ")"
		}
		t.row("", join(name+" "+i.State, strings.Join(i.Addresses, " ")))
	}

	for _, p := range n.Problems {
		t.row("! network", p)
	}
}

func (t *table) upgrade(u *Upgrade) {
	if u == nil {
		return
	}

	switch u.Phase {
	case "":
	case "drill":
		t.row("drill", u.Waits)
	case "trial":
		t.row("on trial", u.To+", falls back to "+u.From+optional(": ", u.Waits))
	default:
		words := fmt.Sprintf("%s to %s, %s", u.From, u.To, u.Phase)
		if u.Size > 0 {
			words += fmt.Sprintf(": %s %d %%", u.Part, 100*u.Done/u.Size)
		}
		t.row("upgrade", words+optional(", ", u.Waits))
	}

	t.row("", u.Problem)
	if d := u.Drill; d != nil {
		words := fmt.Sprintf("by %s, %s: back in %s, tries: %d",
			d.By, d.At.UTC().Format(clock), d.Took, d.Boots)
		if d.Problem != "" {
			words = fmt.Sprintf("by %s, %s: %s", d.By, d.At.UTC().Format(clock), d.Problem)
		}
		t.row("drill", words)
	}

	for _, f := range u.Failed {
		t.row("failed", f.Version+" on "+f.At.UTC().Format(clock)+": "+f.Reason+" (loam why)")
	}
}

func (t *table) change(c *Change) {
	switch {
	case c == nil:
	case !c.Until.IsZero():
		t.row("on trial",
			fmt.Sprintf("until %s, then back to %s", c.Until.UTC().Format(clock), c.Good))
		t.row("", c.Waits)
		t.row("", "`loam confirm` keeps it, `loam rollback` ends it")
	case c.Good != "":
		t.row("watched", c.Waits+"; goes back to "+c.Good+" if it is worse")
	default:
		t.row("watched", c.Waits+"; there is nothing to go back to")
	}
}

// unit returns the columns of a unit: name, state, since when.
func (t *table) unit(u Unit) string {
	mark := " "
	if !u.Settled {
		mark = "*"
	}

	state := mark + u.Active + "/" + u.Sub
	room := t.width - 15 - 25 - 10
	name := ascii(u.Name)
	if len(name) > room {
		name = name[:room-2] + ".."
	}

	return strings.TrimRight(fmt.Sprintf("%-*s%-25.24s%10s", room, name, state, since(u.Since)),
		" ")
}
