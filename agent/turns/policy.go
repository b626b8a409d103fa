package turns

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // The image has no /usr/share/zoneinfo.

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/loam-os/loam/agent/document"
	"github.com/loam-os/loam/agent/window"
	"github.com/loam-os/loam/hint"
)

// Policy says how many nodes of a pool may be away at once, and when.
type Policy struct {
	// MaxUnavailable limits the nodes that are away, HardMax what a person may
	// raise that to. PerZone and PerRack limit those of one zone and one rack;
	// the zero Amount does not limit.
	MaxUnavailable, HardMax Amount
	PerZone, PerRack        Amount

	// RackLabel is the label of Nodes that names the rack.
	RackLabel string

	// Nodes is the label selector of the Nodes of the pool, "" for the Nodes
	// that have the same configuration.
	Nodes string

	// Chunks do not shrink: numbers and shares among themselves, and no number is after
	// 100 %. A chunk begins when as many nodes are done as the chunk before allowed.
	Chunks []Amount

	// MaxFailures is how many failures do not halt the rollout.
	MaxFailures int

	// Windows are when turns may be taken, empty for any time.
	Windows []window.Window

	// Overdue is after how long a turn counts as a failure.
	Overdue map[Class]time.Duration

	// Drain is how nodes are drained before changes that stop pods.
	Drain Drain
}

// Amount is a number of nodes or a share of the pool.
type Amount struct {
	Number  int
	Percent int
}

// Of returns the number of nodes of a pool of that size. A share is rounded
// down, but not to 0: a small pool would never change.
func (a Amount) Of(size int) int {
	if a.Percent > 0 {
		return max(1, size*a.Percent/100)
	}
	return a.Number
}

// String returns the Amount as it is written in a policy.
func (a Amount) String() string {
	if a.Percent > 0 {
		return strconv.Itoa(a.Percent) + "%"
	}
	return strconv.Itoa(a.Number)
}

// ParseAmount reads an Amount as [Amount.String] writes it: a number above 0, or a
// percentage up to 100 %.
func ParseAmount(text string) (Amount, error) {
	digits, isShare := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	switch {
	case err != nil || n < 1 || n > 1e6 || (isShare && n > 100):
		return Amount{}, hint.With(fmt.Errorf("%.40q is neither a number of nodes nor a share of them", text),
			`write a number such as 3, or a share such as 5%%`)
	case isShare:
		return Amount{Percent: n}, nil
	}
	return Amount{Number: n}, nil
}

// MarshalText implements [encoding.TextMarshaler].
func (a Amount) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (a *Amount) UnmarshalText(text []byte) (err error) {
	*a, err = ParseAmount(string(text))
	return err
}

// MayBeAway returns how many nodes of a pool of that size may be away at once,
// without the limits of zones and racks.
func (p Policy) MayBeAway(size int) int {
	return min(p.MaxUnavailable.Of(size), p.HardMax.Of(size))
}

// hurried returns the policy that counts while a person is in a hurry.
func (p Policy) hurried(l Ledger, now time.Time) Policy {
	if l.Hurry == nil || !now.Before(l.Hurry.Until) {
		return p
	}
	p.MaxUnavailable = l.Hurry.Max
	p.Chunks = []Amount{{Percent: 100}}
	p.Windows = nil
	return p
}

// written is a policy as people write it.
type written struct {
	MaxUnavailable any             `json:"maxUnavailable"`
	HardMax        any             `json:"hardMax"`
	PerZone        any             `json:"perZone"`
	PerRack        any             `json:"perRack"`
	RackLabel      string          `json:"rackLabel"`
	Nodes          string          `json:"nodes"`
	Chunks         []any           `json:"chunks"`
	MaxFailures    int             `json:"maxFailures"`
	Windows        []writtenWindow `json:"windows"`
	Overdue        writtenOverdue  `json:"overdue"`
	Drain          writtenDrain    `json:"drain"`
}

type writtenWindow struct {
	Open     string `json:"open"`
	TimeZone string `json:"timeZone"`
}

type writtenOverdue struct {
	Kubelet string `json:"kubelet"`
	Pods    string `json:"pods"`
	Reboot  string `json:"reboot"`
}

// ParsePolicy reads a policy, JSON or YAML. name is where it stands. The errors
// are [document.Errors].
func ParsePolicy(name string, text []byte) (Policy, error) {
	if document.IsEmpty(text) {
		text = []byte("{}") // Its error says what a policy needs.
	}

	var w written
	origin, err := document.DecodeWithOrigin(name, text, &w)
	report := document.NewReport(origin)
	p := w.read(report)
	if err := document.MergeChecked(err, report.Err()); err != nil {
		return Policy{}, err
	}
	return p, nil
}

// read returns the Policy and reports what is wrong with it.
func (w written) read(report *document.Report) Policy {
	p := Policy{
		MaxUnavailable: readAmount(report, "maxUnavailable", w.MaxUnavailable),
		HardMax:        readAmount(report, "hardMax", w.HardMax),
		PerZone:        readAmount(report, "perZone", w.PerZone),
		PerRack:        readAmount(report, "perRack", w.PerRack),
		RackLabel:      w.RackLabel,
		Nodes:          w.Nodes,
		Chunks:         w.chunks(report),
		MaxFailures:    w.MaxFailures,
		Windows:        w.windows(report),
		Overdue:        w.Overdue.read(report),
	}
	p.Drain = w.Drain.read(report, p.Overdue)

	if w.MaxUnavailable == nil {
		report.Add("maxUnavailable", "is missing",
			`write how many nodes may be away, such as 1 or "5%"`)
	}
	if most := MaxHolders(); p.MaxUnavailable.Number > most {
		report.Addf("maxUnavailable", fmt.Sprintf("write at most %d, or a share such as \"5%%\"", most),
			"is %d: a ledger holds the turns of %d nodes", p.MaxUnavailable.Number, most)
	}
	if w.HardMax == nil {
		p.HardMax = p.MaxUnavailable
	}
	if p.HardMax != (Amount{}) && isLess(p.HardMax, p.MaxUnavailable) {
		report.Addf("hardMax", "write at least maxUnavailable", "is %s, and maxUnavailable %s",
			p.HardMax, p.MaxUnavailable)
	}

	switch {
	case w.PerRack != nil && w.RackLabel == "":
		report.Add("perRack", "has no rackLabel",
			"write rackLabel: the label of Nodes that names the rack")
	case w.PerRack == nil && w.RackLabel != "":
		report.Add("rackLabel", "has no perRack",
			"write perRack: how many nodes of a rack may be away")
	}
	switch {
	case w.MaxFailures < 0:
		report.Addf("maxFailures", "write 0 or more", "is %d", w.MaxFailures)
	case report.HasNotation("maxFailures"):
		reportNotation(report, "maxFailures", int64(w.MaxFailures))
	}

	p.checkLabels(report)
	p.checkDrain(report)
	return p
}

// checkLabels reports a label and a selector that Kubernetes refuses: no node could
// list the Nodes of its pool.
func (p Policy) checkLabels(report *document.Report) {
	if _, err := labels.Parse(p.Nodes); err != nil {
		report.Add("nodes", document.Quote(p.Nodes)+" is not a label selector: "+err.Error(),
			"write it as for kubectl get nodes -l, such as pool=edge")
	}
	if p.RackLabel == "" {
		return
	}
	if len(validation.IsQualifiedName(p.RackLabel)) > 0 {
		report.Add("rackLabel", document.Quote(p.RackLabel)+" is not the name of a label",
			"write up to 63 letters, digits, - _ and . after an optional prefix, such as "+
				"example.com/rack")
	}
}

// isLess reports whether a is less than b in a pool of any size. It compares
// only what is of one kind.
func isLess(a, b Amount) bool { return a.isLike(b) && a.Percent+a.Number < b.Percent+b.Number }

// isLike reports whether a and b are both numbers or both shares.
func (a Amount) isLike(b Amount) bool { return (a.Percent > 0) == (b.Percent > 0) }

// readAmount reads a positive number or a percentage; nil is the zero Amount.
func readAmount(report *document.Report, path string, value any) Amount {
	const remedy = `write a number such as 3, or a share such as "5%"`
	switch v := value.(type) {
	case nil:
		return Amount{}
	case int64:
		switch {
		case report.HasNotation(path):
			reportNotation(report, path, v)
		case v == 0:
			report.Add(path, "is 0: no node could ever change", remedy)
		case v < 0 || v > 1e6:
			report.Addf(path, remedy, "is %d", v)
		default:
			return Amount{Number: int(v)}
		}
		return Amount{}
	case string:
		digits, isShare := strings.CutSuffix(v, "%")
		n, err := strconv.Atoi(digits)
		switch {
		case !isShare || err != nil || n < 0:
			report.Add(path, document.Quote(v)+" is neither a number nor a percentage", remedy)
		case n == 0:
			report.Add(path, "is 0%: no node could ever change", remedy)
		case n > 100:
			report.Addf(path, "write at most 100%", "is %d%%", n)
		default:
			return Amount{Percent: n}
		}
		return Amount{}
	}

	report.Add(path, "is neither a number nor a percentage", remedy)
	return Amount{}
}

// reportNotation reports a number that only YAML reads as one, and not each version
// of YAML as the same.
func reportNotation(report *document.Report, path string, number int64) {
	report.Add(path, "is a number in another notation than digits",
		fmt.Sprintf("write %d, if that is meant", number))
}

// defaultChunks begin with a single node.
func defaultChunks() []Amount {
	return []Amount{{Number: 1}, {Percent: 1}, {Percent: 5}, {Percent: 25}, {Percent: 100}}
}

func (w written) chunks(report *document.Report) []Amount {
	if len(w.Chunks) == 0 {
		return defaultChunks()
	}

	var chunks []Amount
	for i, value := range w.Chunks {
		path := fmt.Sprintf("chunks[%d]", i)
		if value == nil {
			value = int64(0)
		}
		c := readAmount(report, path, value)
		if before := c.shrinks(chunks); before != (Amount{}) && c != (Amount{}) {
			report.Addf(path, "let no chunk be smaller than the one before",
				"is %s, after %s", c, before)
		}
		chunks = append(chunks, c)
	}
	return chunks
}

// shrinks returns the last of the chunks that a is smaller than, the zero Amount if
// there is none. Numbers and shares are only compared among themselves, but nothing is
// larger than all nodes.
func (a Amount) shrinks(chunks []Amount) Amount {
	for _, c := range slices.Backward(chunks) {
		if isLess(a, c) || (c.Percent == 100 && !a.isLike(c)) {
			return c
		}
	}
	return Amount{}
}

func (w written) windows(report *document.Report) []window.Window {
	var windows []window.Window
	for i, text := range w.Windows {
		path := fmt.Sprintf("windows[%d]", i)
		if text.Open == "" {
			report.Add(path+".open", "is missing", "write a time such as Mon-Fri 22:00-04:00")
			continue
		}

		open, err := window.Parse(text.Open)
		if err != nil {
			report.Add(path+".open", "never opens: "+err.Error(),
				"write a time such as Mon-Fri 22:00-04:00")
		}
		zone, err := time.LoadLocation(text.TimeZone)
		if err != nil || text.TimeZone == "Local" || !zoneName.MatchString(text.TimeZone) {
			report.Add(path+".timeZone", document.Quote(text.TimeZone)+" is not a time zone",
				"write a name of the IANA database, such as Europe/Berlin")
			continue
		}
		windows = append(windows, open.In(zone))
	}
	return windows
}

// zoneName matches all names of the IANA database, and "" for UTC. The disk of an operator
// has zones by other names, such as posix/Europe/Berlin, which nodes do not have.
var zoneName = regexp.MustCompile(`^([A-Z][A-Za-z0-9_+-]*(/[A-Z][A-Za-z0-9_+-]*)*)?$`)

// defaultOverdue is longer than any turn that goes well.
func defaultOverdue() map[Class]time.Duration {
	return map[Class]time.Duration{
		Kubelet: 10 * time.Minute,
		Pods:    30 * time.Minute,
		Reboot:  30 * time.Minute,
	}
}

func (w writtenOverdue) read(report *document.Report) map[Class]time.Duration {
	overdue := defaultOverdue()
	for _, field := range []struct {
		class Class
		path  string
		text  string
	}{
		{Kubelet, "overdue.kubelet", w.Kubelet},
		{Pods, "overdue.pods", w.Pods},
		{Reboot, "overdue.reboot", w.Reboot},
	} {
		if field.text == "" {
			continue
		}
		if d, ok := report.Duration(field.path, field.text, time.Minute); ok {
			overdue[field.class] = d
		}
	}
	return overdue
}

// chunk returns how many nodes may be done or begun while that many are done. If more
// are done than the pool has, as it has become smaller or changes to a target once
// more, the chunks begin anew.
func (p Policy) chunk(done, size int) int {
	before := done - done%max(size, 1)
	for _, c := range p.Chunks {
		if n := before + c.Of(size); n > done {
			return n
		}
	}
	return max(before+size, done+1)
}

// Opens returns when a window is next open, which is now if one is open.
func (p Policy) Opens(now time.Time) time.Time {
	if len(p.Windows) == 0 {
		return now
	}

	first := p.Windows[0].Opens(now)
	for _, w := range p.Windows[1:] {
		if at := w.Opens(now); at.Before(first) {
			first = at
		}
	}
	return first
}
