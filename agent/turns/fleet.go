package turns

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"time"

	"github.com/loam-os/loam/firmware/bootentry"
)

// Fleet is the Nodes of a pool, read after the ledger.
type Fleet []Node

// Size returns how many Nodes may change. Shares of a policy count those only.
func (f Fleet) Size() int {
	n := 0
	for _, node := range f {
		if !node.Pinned {
			n++
		}
	}
	return n
}

// Node is what a decision needs of a Node.
type Node struct {
	Name, Zone, Rack string

	// Away says that the Node is not Ready or is cordoned.
	Away bool

	// ControlPlane says that it has the role of a control plane.
	ControlPlane bool

	// Canary and Pinned say that an operator lets it go first, or keeps it from
	// changing. Tried is what a canary has tried. Held says that the node keeps its
	// system; of other nodes than canaries, that may not be known.
	Canary, Pinned, Held bool
	Tried                Tried

	// Mark is its mark, "" if absent: a [Holder]. Failures are what it remembers
	// of changes that failed: a [Failure] each.
	Mark     string
	Failures []string
}

// Tried is what a canary has tried, as its Node remembers it. Only the agent of
// a canary writes it.
type Tried struct {
	// Targets are the last targets that it runs, or for which it had its turn, the
	// newest last.
	Targets []string `json:"targets,omitempty"`

	// Version is the version of the system that it runs.
	Version string `json:"version,omitempty"`
}

// maxTried is how many targets a canary remembers.
const maxTried = 8

// ParseTried reads a [Tried] as [Tried.String] writes it. What cannot be read is
// nothing: the canary comes first again.
func ParseTried(text string) Tried {
	var t Tried
	if json.Unmarshal([]byte(text), &t) != nil {
		return Tried{}
	}
	return t
}

// With returns t with another target.
func (t Tried) With(target string) Tried {
	if slices.Contains(t.Targets, target) {
		return t
	}
	targets := append(slices.Clone(t.Targets), target)
	t.Targets = targets[max(0, len(targets)-maxTried):]
	return t
}

// String returns the text of an annotation.
func (t Tried) String() string {
	text, _ := json.Marshal(t) // Strings only.
	return string(text)
}

// first returns the name of a canary that comes before me, "" if there is none.
// A canary that is away or pinned, or keeps its system, is not waited for, unless
// it has its turn. A turn that it has for too long counts as a failure.
func (f Fleet) first(p Policy, turns []Holder, me Me, now time.Time) string {
	if me.Canary || me.isRestart() {
		return ""
	}
	for _, n := range f {
		if !n.Canary || n.Name == me.Node {
			continue
		}
		has := slices.IndexFunc(turns, func(h Holder) bool {
			return h.Node == n.Name && h.Target == me.Target
		})
		switch {
		case has >= 0 && now.Sub(turns[has].Since) <= p.Overdue[turns[has].Class]:
			return n.Name
		case has < 0 && !n.Away && !n.keeps(me) && !n.hasTried(me):
			return n.Name
		}
	}
	return ""
}

// keeps reports whether a node does not change to what me changes to.
func (n Node) keeps(me Me) bool { return n.Pinned || (n.Held && me.isSystem()) }

// hasTried reports whether a canary has tried what me changes to, or runs a
// system that is not older.
func (n Node) hasTried(me Me) bool {
	if me.isSystem() {
		runs := n.Tried.Version
		if runs != "" && bootentry.CompareVersions(runs, me.Version) >= 0 {
			return true
		}
	}
	return slices.Contains(n.Tried.Targets, me.Target)
}

// Failure is a change that failed, as its Node remembers it. A ledger that is
// made again is halted by it.
type Failure struct {
	// Pool is the pool that the node was in, "" from a version that did not say so.
	Pool string `json:"pool,omitempty"`

	// Target is the digest of a configuration, or the start of a system's root
	// hash.
	Target string `json:"target"`
	// Version is the version of a system, "" for a configuration.
	Version string `json:"version,omitempty"`
	// Revision orders targets of a kind.
	Revision uint64 `json:"revision"`
	// Why is the reason.
	Why string `json:"why"`
}

// Bounds of what a ledger takes from a [Failure], and keeps of a halt once
// another configuration has replaced it, in characters.
const (
	maxTarget = 64
	maxWhy    = 1000
	maxHalt   = 100
)

// ParseFailure reads a [Failure] as [Failure.String] writes it. A reason that is
// too long is cut off.
func ParseFailure(text string) (Failure, error) {
	var f Failure
	err := json.Unmarshal([]byte(text), &f)
	switch {
	case err != nil:
	case f.Target == "":
		err = fmt.Errorf("a failure without a target: %.80q", text)
	case len(f.Target) > maxTarget || len(f.Version) > maxTarget,
		!versionText.MatchString(f.Version),
		f.Version != "" && !keyName.MatchString(f.Target),
		!keyName.MatchString(haltKey(f.Target)):
		err = fmt.Errorf("a failure of %.80q, which is no target", f.Target)
	}
	f.Why = fmt.Sprintf("%.*s", maxWhy, f.Why)
	return f, err
}

// versionText matches the version of a system, or none. Each node can write what it likes
// to its own Node: with a character that JSON escapes, the admission policies would refuse
// the ledger of all.
var versionText = regexp.MustCompile(`^[A-Za-z0-9.~^+_-]*$`)

// String returns the text of an annotation.
func (f Failure) String() string {
	text, _ := json.Marshal(f) // Strings and a number only.
	return string(text)
}

// away counts nodes that are away, or have a turn: in all, in one zone and one
// rack, and of control planes.
type away struct{ total, zone, rack, controlPlanes int }

func (a *away) add(n Node, me Me) {
	a.total++
	if n.Zone == me.Zone {
		a.zone++
	}
	if n.Rack == me.Rack {
		a.rack++
	}
	if n.ControlPlane {
		a.controlPlanes++
	}
}

// Missing returns the names of Nodes that have a turn and are not in the fleet: they are
// gone, or not selected any more.
func (f Fleet) Missing(l Ledger) []string {
	missing := map[string]bool{}
	for _, holders := range []map[string]Holder{l.Holders, l.Restored} {
		for _, h := range holders {
			missing[h.Node] = true
		}
	}
	for _, n := range f {
		delete(missing, n.Name)
	}
	return slices.Sorted(maps.Keys(missing))
}

// WithUnselected returns the fleet with Nodes that have a turn and are [Fleet.Missing]: a
// person has labelled them otherwise in their turn, or the policy names other Nodes
// since. Their turns count, but they not for the size of the pool, like pinned Nodes.
func (f Fleet) WithUnselected(l Ledger, others Fleet) Fleet {
	turns := map[string]Holder{}
	for _, holders := range []map[string]Holder{l.Restored, l.Holders} {
		for _, h := range holders {
			turns[h.Node] = h
		}
	}

	f = slices.Clone(f)
	for _, n := range others {
		if h, ok := turns[n.Name]; ok {
			f = append(f, n.unselected(h))
		}
	}
	return f
}

// WithMarked returns the fleet with those of all Nodes that are not selected and say that
// they have a turn in that ledger, or that a change has failed there in the pool of me.
// Nothing else of them counts.
func (f Fleet) WithMarked(ledger string, me Me, all Fleet) Fleet {
	selected := map[string]bool{}
	for _, n := range f {
		selected[n.Name] = true
	}

	f = slices.Clone(f)
	for _, n := range all {
		if selected[n.Name] {
			continue
		}
		node := Node{Name: n.Name, Pinned: true}
		if h, err := ParseHolder(n.Mark); err == nil && h.Ledger == ledger {
			h.Node = n.Name
			node = n.unselected(h)
		}
		for _, text := range n.Failures {
			if failure, err := ParseFailure(text); err == nil && failure.Pool == me.Pool {
				node.Failures = append(node.Failures, text)
			}
		}
		if node.Mark != "" || len(node.Failures) > 0 {
			f = append(f, node)
		}
	}
	return f
}

// unselected returns what counts of a Node that is not selected and has the turn h. A
// restored turn counts as one whose mark is still there. The turn may be from before the
// policy named racks.
func (n Node) unselected(h Holder) Node {
	return Node{
		Name:         n.Name,
		Zone:         cmp.Or(n.Zone, h.Zone),
		Rack:         cmp.Or(n.Rack, h.Rack),
		ControlPlane: n.ControlPlane,
		Pinned:       true,
		Mark:         h.String(),
	}
}

// turns returns the turns that count: those whose Node is there and, of
// restored ones, still marked.
func (f Fleet) turns(l Ledger) []Holder {
	nodes := map[string]Node{}
	for _, n := range f {
		nodes[n.Name] = n
	}

	var turns []Holder
	for _, h := range l.Holders {
		if _, ok := nodes[h.Node]; ok {
			turns = append(turns, h)
		}
	}
	for _, h := range l.Restored {
		if marked(nodes[h.Node].Mark) == h.ID {
			turns = append(turns, h)
		}
	}
	return turns
}

// away counts the nodes that are away, without my own. A turn counts where its
// Node is: it may be from before the policy named racks.
func (f Fleet) away(turns []Holder, me Me) away {
	holds := map[string]bool{}
	for _, h := range turns {
		holds[h.Node] = true
	}

	var a away
	for _, n := range f {
		if n.Name != me.Node && (n.Away || holds[n.Name]) {
			a.add(n, me)
		}
	}
	return a
}

// marked returns the ID of the turn in a mark, "" if there is none.
func marked(mark string) string {
	h, err := ParseHolder(mark)
	if err != nil {
		return ""
	}
	return h.ID
}
