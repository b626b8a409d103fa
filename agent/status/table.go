package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/redact"
)

// View is how a status is shown.
type View struct {
	// Width is in columns: at least [MinWidth], and of more than 100 the rest
	// stays empty.
	Width int
	// Lines is how many lines there is room for, at least [MinLines]; 0 for any
	// number.
	Lines int
	// Now is the time of day from which countdowns count; zero if none.
	Now time.Time
}

// Table formats s as plain ASCII with a newline at the end of each line. First
// is how the node is, then what runs, what was refused, what comes next, where
// orders come from, and details. Where lines are few, it leaves out details.
func (s Status) Table(v View) string { return s.table(v).String() }

// Changes returns the rows of the table of s that the table of before has not.
func (s Status) Changes(before Status, v View) string {
	known := map[string]bool{}
	for _, r := range before.table(v).rows() {
		known[r.String()] = true
	}

	var out strings.Builder
	for _, r := range s.table(v).rows() {
		if text := r.String(); !known[text] && r.label != uptimeLabel {
			out.WriteString(text)
		}
	}
	return out.String()
}

// uptimeLabel is of a row that is another one each time.
const uptimeLabel = "uptime"

// table is the page of a status.
type table struct {
	page
	uptime time.Duration
}

func (s Status) table(v View) *table {
	t := &table{
		page: page{
			width: min(max(v.Width, MinWidth), maxWidth),
			lines: v.Lines,
			now:   v.Now,
			units: s.Units,
		},
		uptime: time.Duration(s.Uptime),
	}
	t.verdict(s)
	t.runs(s)
	t.refused(s)
	t.next(s)
	t.orders(s)
	t.details(s)
	return t
}

// verdict says how the node is.
func (t *table) verdict(s Status) {
	t.group()
	health, reason := s.Assess()
	t.row("health", string(health)+": "+reason)
	t.row("phase", s.phase())
	for _, tty := range s.DebugShells {
		t.row("! shell", "debug shell open on "+tty)
	}
}

// runs says what the node runs.
func (t *table) runs(s Status) {
	t.group()
	t.row("generation", s.Generation)
	t.row("system", join(s.ImageID, s.ImageVersion)+optional(", slot ", s.Slot))
	if s.Upgrade != nil && s.Slot != "" {
		t.row("other slot", cmp.Or(s.Upgrade.Other, "holds no system"))
	}
	t.volume("data volume", "the kubelet", s.Volume)
	t.volume("etcd volume", "etcd", s.EtcdVolume)
	t.row("wear", wear(s.Disks))
}

// wear says how much of their life disks have used, "" if none says so.
func wear(disks []Disk) string {
	var all []string
	for _, d := range disks {
		if d.Used != nil {
			all = append(all, fmt.Sprintf("%s %d %%", d.Name, *d.Used))
		}
	}
	return strings.Join(all, ", ")
}

// maxDisks is how many disks with a problem a page has where lines are few.
const maxDisks = 3

// disks adds the disks with a problem, those that fail first.
func (t *table) disks(disks []Disk) {
	troubled := slices.DeleteFunc(slices.Clone(disks), func(d Disk) bool { return d.Problem == "" })
	slices.SortStableFunc(troubled, func(a, b Disk) int {
		return cmp.Compare(diskRank(a), diskRank(b))
	})

	for i, d := range troubled {
		if t.lines > 0 && i >= maxDisks {
			t.row("! disk", fmt.Sprintf("and %d more", len(troubled)-i))
			return
		}
		t.row("! disk", d.Problem)
		t.row("hint", d.Hint)
	}
}

// diskRank is 0 for a disk that fails, and 1 for one that is worn.
func diskRank(d Disk) int {
	if d.Code == fault.DiskFailing {
		return 0
	}
	return 1
}

// refused says what is wrong, and what the node does not do.
func (t *table) refused(s Status) {
	t.group()
	if e := s.Error; e != nil {
		t.problem("error", e.place()+e.Problem)
		t.problem("hint", e.Hint)
	}
	t.repair(s.Repair)
	if c := s.Cluster; c != nil {
		t.row("! cluster", before(string(c.Code), ": ")+c.Problem)
		t.row("tried", c.Tried)
		t.row("hint", c.Hint)
	}
	for _, f := range s.Storage {
		t.row("! room", f.Problem)
		t.row("hint", f.Hint)
	}
	for _, l := range s.Limits {
		t.row("! limit", l.Problem)
		t.row("hint", l.Hint)
	}
	t.disks(s.Disks)
	if s.Clock != nil {
		t.row("! clock", s.Clock.Problem)
		t.row("hint", s.Clock.Hint)
	}

	if b := s.TakenBack; b != nil && b.Generation != s.RevertedFrom { // That is the error.
		t.row("taken back", b.Generation+": "+b.Why+" (`loam why`)")
	}
	if s.Held != nil {
		t.row("held", s.Held.Digest+" of the source: "+s.Held.Why)
	}
	if u := s.Upgrade; u != nil {
		t.row("upgrade", u.Problem)
		for _, f := range u.Failed {
			t.row("failed", f.Version+" on "+date(f.At)+": "+f.Reason+" (`loam why`)")
		}
		t.drill(u.Drill)
	}

	if s.Network != nil {
		for _, p := range s.Network.Problems {
			t.row("! network", p)
		}
	}

	t.warnings(s)
	t.notes(s.Notes)
}

// mostChanges is how many changes of a repair are shown.
const mostChanges = 3

// repair says what became of a damaged state partition.
func (t *table) repair(r *Repair) {
	if r == nil {
		return
	}

	what := join("state partition", r.Device)
	switch r.State {
	case Repairing:
		t.row("! state", "e2fsck repairs "+what+", then the machine restarts: "+r.Damage)
	case RepairDone:
		t.row("repaired", fmt.Sprintf("%s on %s: %s", what, date(r.At), r.Damage))
		t.row("", count(r.Changes, "change")+" by e2fsck"+optional(": ", r.Log))
	case RepairReset:
		t.row("reset", fmt.Sprintf("%s was formatted on %s: %s", what, date(r.At), r.Damage))
		t.row("", cmp.Or(optional("what it held is in ", r.Kept), "no copy: "+r.Problem))
	case RepairFailed:
		how := " is damaged: "
		if r.Code == fault.StateLocked {
			how = " is not open: "
		}
		t.row("! state", what+how+r.Damage)
		t.row("", r.Problem)
		t.row("log", r.Log)
		t.row("hint", r.Hint)
	}

	for i, change := range r.First {
		if i == mostChanges {
			t.detail("", fmt.Sprintf("and %d more", r.Changes-mostChanges))
			return
		}
		t.detail("", change)
	}
}

// place returns where the error is in its document, with what separates it from
// the problem; "" if it is in none.
func (e Error) place() string {
	at := e.Document
	if e.Line > 0 {
		at += fmt.Sprintf(":%d", e.Line)
	}
	if at = join(at, e.Path); at == "" {
		return ""
	}
	return at + ": "
}

func (t *table) drill(d *Drill) {
	switch {
	case d == nil:
	case d.Problem != "":
		t.row("drill", fmt.Sprintf("by %s, %s: %s", d.By, date(d.At), d.Problem))
		t.row("hint", d.Hint)
	default:
		t.detail("drill", fmt.Sprintf("by %s, %s: back in %s, tries: %d",
			d.By, date(d.At), d.Took, d.Boots))
	}
}

// mostNotes is how many warnings, and how many notes, a console shows.
const mostNotes = 2

func (t *table) warnings(s Status) {
	warnings := slices.Clone(s.Warnings)
	for _, v := range []*Volume{s.Volume, s.EtcdVolume} {
		if v != nil {
			warnings = append(warnings, v.Warnings...)
		}
	}
	if s.Upgrade != nil {
		warnings = append(warnings, s.Upgrade.Damage...)
		if s.Upgrade.TableDamage != "" {
			warnings = append(warnings, s.Upgrade.TableDamage)
		}
	}
	for i, w := range warnings {
		if t.lines > 0 && i == mostNotes {
			t.row("", fmt.Sprintf("and %d more: loam status", len(warnings)-mostNotes))
			return
		}
		t.row("warning", w)
	}
}

// notes shows the notes on the document.
func (t *table) notes(notes []config.Note) {
	for i, n := range notes {
		if t.lines > 0 && i == mostNotes {
			t.row("", fmt.Sprintf("and %d more: loam status", len(notes)-mostNotes))
			return
		}
		t.row("note", n.String())
		if t.lines == 0 {
			t.row("hint", n.Hint)
		}
	}
}

// next says what happens next, and when.
func (t *table) next(s Status) {
	t.group()
	t.change(s.Change)
	if s.Awaited != nil {
		t.row("waits for", s.Awaited.Text(time.Duration(s.Uptime)))
	}

	t.upgrade(s.Upgrade)

	for _, p := range s.Waits {
		t.row("held back", p.Path+" until "+strings.Join(p.URLs, " or ")+" answers")
	}
	if s.Held != nil {
		t.row("next", "`loam apply`, or another content of the source, ends the hold")
	}
	if s.Reset != nil && s.Reset.Done {
		t.row("next", "`loam apply` or another machine.yaml ends the reset")
	}

	t.row("wanted", s.wanted())
	t.row("missing", s.Missing)
	if s.Cluster != nil {
		t.row("turn", s.Cluster.Turn.text())
		t.row("policy", s.Cluster.Turn.Problem)
		t.row("waits for", s.Cluster.Waits)
	}
}

// text says what the turn is for and since when, "" without a turn.
func (turn Turn) text() string {
	if turn.For == "" {
		return ""
	}
	return fmt.Sprintf("for %.12s, since %s", turn.For,
		turn.Since.UTC().Format("2006-01-02 15:04 MST"))
}

func (t *table) change(c *Change) {
	switch {
	case c == nil:
	case !c.Until.IsZero():
		t.row("on trial", "until "+t.when(c.Until)+", then back to "+c.Good)
		t.row("", c.Waits)
		t.row("", "`loam confirm` keeps it, `loam rollback` ends it")
	case c.Good != "":
		t.row("watched", before(c.Waits, "; ")+"goes back to "+c.Good+" if it is worse")
	default:
		t.row("watched", before(c.Waits, "; ")+"there is nothing to go back to")
	}
}

func (t *table) upgrade(u *Upgrade) {
	if u == nil {
		return
	}

	if u.Held != "" {
		t.row("no upgrade", u.Held+" (upgrade.hold in machine.yaml)")
	}
	switch u.Phase {
	case "":
		t.row("upgrade", u.Waits)
	case "drill":
		t.row("drill", u.Waits)
	case "trial":
		t.row("on trial", u.To+", falls back to "+cmp.Or(u.From, "the other slot")+
			t.left(time.Duration(u.Deadline))+optional(": ", u.Waits))
	default:
		words := fmt.Sprintf("%s to %s, %s", u.From, u.To, u.Phase)
		if u.Size > 0 {
			words += fmt.Sprintf(": %s %d %%", u.Part, 100*u.Done/u.Size)
		}
		if u.Restarts.IsZero() {
			words += optional(", ", u.Waits)
		}
		t.row("upgrade", words)
	}

	if !u.Restarts.IsZero() {
		t.row("restarts", t.when(u.Restarts))
	}
	if !u.Retry.IsZero() {
		t.row("tries again", t.when(u.Retry))
	}
}

// left says how long a trial has until a deadline, "" if it has none.
func (t *table) left(deadline time.Duration) string {
	switch {
	case deadline == 0:
		return ""
	case deadline <= t.uptime:
		return " if it stays worse"
	}
	return " if it is worse in " + (deadline - t.uptime).Round(time.Second).String()
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

// orders says where the node gets its orders.
func (t *table) orders(s Status) {
	t.group()
	t.row("source", s.Source)
	t.row("repository", redact.URLs(s.Repository))
	t.cluster(s.Cluster)
	t.ownCluster(s.OwnCluster)
	t.detail("machine.yaml", s.Machine)
}

func (t *table) ownCluster(c *OwnCluster) {
	if c == nil {
		return
	}

	t.row("cluster", c.Name+", of which this is the first node")
	switch {
	case c.Ready:
		t.row("", "Kubernetes "+c.Kubernetes+", ready")
	case c.Problem == "":
		t.row("", "Kubernetes "+c.Kubernetes+", starting")
	default:
		t.row("", "Kubernetes "+c.Kubernetes+", not ready: "+c.Problem)
	}
}

func (t *table) cluster(c *Cluster) {
	if c == nil {
		return
	}

	t.row("cluster", c.Server)
	switch {
	case c.Connected:
		t.row("", "connected since "+date(c.Since))
	case c.Expires.IsZero():
		t.row("", "not joined, since "+date(c.Since))
	default:
		t.row("", "not reached since "+date(c.Since))
	}

	t.row("node", c.Node)
	if !c.Expires.IsZero() {
		t.row("certificate", t.certificate(c.Expires))
	}
}

func (t *table) certificate(expires time.Time) string {
	if !t.now.IsZero() && t.now.After(expires) {
		return "expired on " + date(expires)
	}
	return "until " + date(expires)
}

// details are what an operator looks up.
func (t *table) details(s Status) {
	t.group()
	t.row("host name", s.Hostname)
	t.network(s.Network)
	if s.Drift.Repaired > 0 {
		t.row("drift", fmt.Sprintf("%s repaired, last %s at %s",
			count(s.Drift.Repaired, "path"), s.Drift.Last, seconds(time.Duration(s.Drift.At))))
	}
	t.detail("root hash", s.RootHash)
	t.detail("kernel", s.Kernel)
	t.detail("Secure Boot", s.SecureBoot)
	t.detail("state", encryption(s.Encryption))
	t.detail("files", fmt.Sprint(s.Files))
	t.detail(uptimeLabel, seconds(time.Duration(s.Uptime))+" since kernel start")
}

// encryption says how the state is encrypted.
func encryption(by string) string {
	switch by {
	case "":
		return ""
	case "tpm":
		return "encrypted, opened by the TPM"
	case "key":
		return "encrypted, opened by a key"
	}
	return "encrypted, opened by the recovery key"
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
}

func (t *table) volume(name, user string, v *Volume) {
	switch {
	case v == nil:
	case v.Device == "":
		t.row(name, "none: "+user+" does not start")
	case v.Size == 0:
		t.row(name, v.Device+" is gone")
	default:
		t.row(name,
			fmt.Sprintf("%s, %s, %.1f GiB", v.Device, v.FileSystem, float64(v.Size)/(1<<30)))
	}
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
		return join("reset", r.At.UTC().Format(Clock)) + ": " + words
	}

	switch {
	case s.Phase == Applied && s.AppliedAt > 0:
		return "applied after " + seconds(time.Duration(s.AppliedAt))
	case s.Phase == Failed && s.isWellBefore():
		refused := "the new configuration"
		if s.RevertedFrom != "" {
			refused = number(s.RevertedFrom)
		}
		return "running " + number(s.Generation) + ", " + refused + " refused"
	}
	return string(s.Phase)
}

// AppliedLine is the line that the console prints once when a generation is
// applied.
func (s Status) AppliedLine() string {
	return fmt.Sprintf("loam: applied generation %s after %s", s.Generation, seconds(time.Duration(s.AppliedAt)))
}

// Problem is a problem as a console prints it.
type Problem struct {
	// Of is what it is about: there is one problem of each at a time.
	Of string
	// Cause is the same at each try for the same cause, and Line has what was tried,
	// too.
	Cause, Line string
}

// Problems are what a console prints about what is wrong, for a log of a serial line
// in which somebody searches: one for each problem that has a code, with the name
// of the node.
func (s Status) Problems() []Problem {
	var all []Problem
	add := func(of string, code fault.Code, text, tried string) {
		if code == "" {
			return
		}
		cause := fmt.Sprintf("loam%s: %s: %s", optional(" ", s.Hostname), code, text)
		line := cause + optional("; tried ", tried)
		all = append(all, Problem{of, oneLine(cause), oneLine(line)})
	}

	if e := s.Error; e != nil {
		add("error", e.Code, e.place()+e.Problem, "")
	}
	if r := s.Repair; r != nil && r.State == RepairFailed {
		add("repair", r.Code, r.Problem, "")
	}
	if c := s.Cluster; c != nil {
		add("cluster", c.Code, c.Problem, c.Tried)
	}
	for _, f := range s.Storage {
		add("storage "+f.Path, f.Code, f.Problem, "")
	}
	for _, l := range s.Limits {
		add("limit "+l.Name, l.Code, l.Problem, "")
	}
	for _, d := range s.Disks {
		add("disk "+d.Name, d.Code, d.Problem, "")
	}
	if s.Clock != nil {
		add("clock", s.Clock.Code, s.Clock.Problem, "")
	}
	return all
}

// maxLine is the longest line about a problem, in bytes.
const maxLine = 1000

// oneLine returns a text as a line of plain ASCII.
func oneLine(text string) string { return ascii(printable.Message(text, maxLine)) }
