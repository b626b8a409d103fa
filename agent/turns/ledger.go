package turns

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/loam-os/loam/hint"
)

// State is what a ledger allows.
type State string

const (
	// Restoring means that the ledger is new: its holders are not known yet.
	Restoring State = "restoring"
	// Running lets nodes take turns.
	Running State = "running"
	// Paused lets no node take a turn, until a person resumes the rollout.
	Paused State = "paused"
)

// halted is how the annotation of the state says that the ledger is running,
// and the rollout of the configuration halted.
const halted = "halted"

// Ledger is who of a pool has a turn, and how far its rollouts are. All turns
// count together, whatever they are for.
type Ledger struct {
	State State

	// Why is why the pool is paused.
	Why string

	// Rollout is that of the configuration. Of two configurations, the newer one
	// takes the place of the older one.
	Rollout

	// Systems are the rollouts of systems, by target. Nodes may be upgraded to
	// several at a time, in no order, so each keeps its counts and its halt.
	Systems map[string]Rollout

	// Halts are why configurations were halted that another one has replaced, by
	// [haltKey]. They stay halted until an operator resumes the rollout.
	Halts map[string]string

	// Size is [Fleet.Size] when a turn was taken last, and Nodes the label
	// selector of them, "" for all.
	Size  int
	Nodes string

	// Hurry is a person's leave to change more nodes at once; nil if there is
	// none.
	Hurry *Hurry

	// Holders are the nodes that have a turn, by machine. Restored are those
	// whose Node had a mark when the ledger was made again. They count while
	// their Node has that mark.
	Holders, Restored map[string]Holder
}

// Rollout is how far the nodes of a pool are with one target.
type Rollout struct {
	// Target is the digest of a configuration, or [SystemTarget].
	Target string `json:"-"`
	// Version is the version of a system, "" of a configuration.
	Version string `json:"version,omitempty"`

	// Revision orders targets of a kind: the newer one has the higher Revision.
	Revision uint64 `json:"revision"`

	// Begun is when the first turn was taken.
	Begun time.Time `json:"begun,omitzero"`

	// Done counts the nodes that have changed.
	Done int `json:"done"`
	// Failed counts the nodes that gave their turn after a failure.
	Failed int `json:"failed"`
	// Postponed counts the nodes that gave their turn to take it later.
	Postponed int `json:"postponed,omitempty"`

	// Reached is how far the nodes are in their order: about the rank of the one that took
	// a turn last. It spreads requests, and limits nothing.
	Reached int `json:"-"`

	// Unlabelled is up to which turn the nodes of a large pool do not look for canaries
	// and pinned Nodes: there were none.
	Unlabelled int `json:"-"`

	// Halted is why no further node may take a turn: too many have failed. It is
	// "" if they may.
	Halted string `json:"halted,omitempty"`
}

// Hurry lets more nodes of a pool be away for a time, at any time of day and
// without chunks. The hard limit of the policy, the limits of zones and racks,
// and halts stay.
type Hurry struct {
	// Max is how many nodes may be away.
	Max Amount `json:"max"`
	// Why is the reason.
	Why string `json:"why"`
	// Until is the end.
	Until time.Time `json:"until"`
}

// SystemTarget returns the target of a system with that verity root hash, which
// may be part of the name of an annotation.
func SystemTarget(rootHash string) string { return rootHash[:min(32, len(rootHash))] }

// Holder is a node that has a turn.
type Holder struct {
	// ID is a random text that no other turn has.
	ID string `json:"id"`

	// Machine is its name in certificates.
	Machine string `json:"machine"`
	// Node is the name of its Node.
	Node string `json:"node"`
	// UID is the UID of that.
	UID string `json:"uid"`

	// Target is what the turn is for.
	Target string `json:"target"`
	// Version is the version of a system, "" for a configuration.
	Version string `json:"version,omitempty"`

	// Class is what the change disturbs: "kubelet", "pods" or "reboot".
	Class Class `json:"class"`
	// Zone is the zone that it is in, in the labels of Kubernetes.
	Zone string `json:"zone,omitempty"`
	// Rack is the rack that it is in, in the label of the policy.
	Rack string `json:"rack,omitempty"`
	// Since is when the turn began.
	Since time.Time `json:"since"`

	// Ledger is the name of the ledger that the turn is in. Only marks have it, "" from
	// a version that did not say so.
	Ledger string `json:"ledger,omitempty"`

	// Counted says that the turn was restored, and its failure counted then.
	Counted bool `json:"counted,omitempty"`
}

// Annotations of the Lease that is the ledger.
const (
	prefix           = "rollout.loam.dev/"
	holderPrefix     = "holder.loam.dev/"
	restoredPrefix   = "restored.loam.dev/"
	systemPrefix     = "system.loam.dev/"
	unlabelledPrefix = "unlabelled.loam.dev/"
	reachedPrefix    = "reached.loam.dev/"
	haltPrefix       = "halted.loam.dev/"
)

// haltKey returns the name under which a ledger keeps that a target is halted: the
// name of an annotation has 63 characters at most.
func haltKey(target string) string { return target[:min(32, len(target))] }

// holderKey returns the name under which a ledger keeps the turn of a machine, which may
// have 253 characters: of a longer name, the first ones and a hash. What is changed here
// has to change in examples/cluster/admission.yaml.
func holderKey(machine string) string {
	if len(machine) <= 63 {
		return machine
	}
	sum := sha256.Sum256([]byte(machine))
	return machine[:30] + "." + hex.EncodeToString(sum[:16])
}

// counters are the annotations of a ledger with a number.
func counters(l *Ledger) map[string]*int {
	return map[string]*int{
		"done":       &l.Done,
		"failed":     &l.Failed,
		"postponed":  &l.Postponed,
		"size":       &l.Size,
		"reached":    &l.Reached,
		"unlabelled": &l.Unlabelled,
	}
}

// extras are the numbers of a system's rollout that have annotations of their own, by
// prefix: admission policies that are in use refuse another field in the rollout.
func extras(r *Rollout) map[string]*int {
	return map[string]*int{
		reachedPrefix:    &r.Reached,
		unlabelledPrefix: &r.Unlabelled,
	}
}

// maxCount is more than any count of turns. Near the largest int, the next turn would make
// it one below 0, which nobody reads.
const maxCount = 1_000_000_000

// readNumber reads the annotation key into n, if it is there.
func readNumber(annotations map[string]string, key string, n *int) error {
	text, ok := annotations[key]
	if !ok {
		return nil
	}
	var err error
	*n, err = strconv.Atoi(text)
	if err != nil || *n < 0 || *n > maxCount {
		return invalid(key, text, "a number")
	}
	return nil
}

// IsLedger reports whether the Lease with these annotations is a ledger. In
// Gardener, it may be the Lease of a serial rollout.
func IsLedger(annotations map[string]string) bool {
	_, ok := annotations[prefix+"state"]
	return ok
}

// ReadLedger reads a ledger from the annotations of its Lease. It refuses what
// it does not understand: a guess could let too many nodes change.
func ReadLedger(annotations map[string]string) (Ledger, error) {
	l := Ledger{
		State:    State(annotations[prefix+"state"]),
		Why:      annotations[prefix+"why"],
		Systems:  map[string]Rollout{},
		Halts:    map[string]string{},
		Holders:  map[string]Holder{},
		Restored: map[string]Holder{},
	}
	l.Target = annotations[prefix+"target"]
	l.Halted = annotations[prefix+halted]
	l.Nodes = annotations[prefix+"nodes"]
	if key := haltKey(l.Target); key != "" && !keyName.MatchString(key) {
		return Ledger{}, invalid("target", l.Target, "a digest")
	}

	switch l.State {
	case Restoring, Running, Paused:
	case halted:
		l.State = Running
		l.Halted = cmp.Or(l.Halted, l.Why, "too many nodes have failed")
		l.Why = ""
	default:
		return Ledger{}, hint.With(
			fmt.Errorf("annotation %sstate is %.40q, want running, paused, halted or restoring",
				prefix, l.State),
			"write one of running, paused, halted into it")
	}

	var err error
	if text, ok := annotations[prefix+"revision"]; ok {
		l.Revision, err = strconv.ParseUint(text, 10, 64)
		if err != nil {
			return Ledger{}, invalid(prefix+"revision", text, "a number")
		}
	}
	if text, ok := annotations[prefix+"begun"]; ok {
		l.Begun, err = time.Parse(time.RFC3339, text)
		if year := l.Begun.UTC().Year(); err != nil || year < 0 || year > 9999 {
			return Ledger{}, invalid(prefix+"begun", text, "a time as in RFC 3339")
		}
	}
	if text, ok := annotations[prefix+"now"]; ok {
		l.Hurry, err = readHurry(text)
		if err != nil {
			return Ledger{}, err
		}
	}
	for key, counter := range counters(&l) {
		if err := readNumber(annotations, prefix+key, counter); err != nil {
			return Ledger{}, err
		}
	}

	for key, text := range annotations {
		if target, ok := strings.CutPrefix(key, haltPrefix); ok {
			l.Halts[target] = text
		}
		if err := readEntry(l, key, text); err != nil {
			return Ledger{}, hint.With(fmt.Errorf("annotation %s: %w", key, err), deleteLease)
		}
	}

	for target, r := range l.Systems {
		for of, n := range extras(&r) {
			if err := readNumber(annotations, of+target, n); err != nil {
				return Ledger{}, err
			}
		}
		l.Systems[target] = r
	}
	return l, nil
}

// readEntry takes into l an annotation that is about one machine or one system, if it
// is one.
func readEntry(l Ledger, key, text string) error {
	if target, ok := strings.CutPrefix(key, systemPrefix); ok {
		r := Rollout{Target: target}
		err := json.Unmarshal([]byte(text), &r)
		counts := []int{r.Done, r.Failed, r.Postponed}
		if err == nil && (slices.Min(counts) < 0 || slices.Max(counts) > maxCount) {
			err = fmt.Errorf("a count below 0 or above %d: %.80q", maxCount, text)
		}
		l.Systems[target] = r
		return err
	}

	for of, holders := range map[string]map[string]Holder{
		holderPrefix:   l.Holders,
		restoredPrefix: l.Restored,
	} {
		name, ok := strings.CutPrefix(key, of)
		if !ok {
			continue
		}
		h, err := ParseHolder(text)
		switch {
		case err != nil:
			return err
		case holderKey(h.Machine) != name:
			return fmt.Errorf("a turn of %s", h.Machine)
		}
		holders[h.Machine] = h
	}
	return nil
}

// readHurry reads a person's leave. One without a number of nodes would be written as 0 of
// them, which nobody reads.
func readHurry(text string) (*Hurry, error) {
	h := &Hurry{}
	err := json.Unmarshal([]byte(text), h)
	if err != nil || h.Max == (Amount{}) {
		return nil, hint.With(mistake(prefix+"now", text, "what `loamctl rollout now` writes"),
			"correct or remove the annotation: without the Lease, a pause would end, too")
	}
	return h, nil
}

// deleteLease is the hint about what a person cannot write as well as the nodes.
const deleteLease = "delete the Lease: the nodes make it again from their marks"

func invalid(key, text, want string) error {
	return hint.With(mistake(key, text, want), deleteLease)
}

func mistake(key, text, want string) error {
	return fmt.Errorf("annotation %s is %.40q, want %s", key, text, want)
}

// ParseHolder reads a [Holder] as [Holder.String] writes it.
func ParseHolder(text string) (Holder, error) {
	var h Holder
	err := json.Unmarshal([]byte(text), &h)
	switch {
	case err != nil:
	case h.ID == "" || h.Machine == "" || h.Node == "":
		err = fmt.Errorf("a turn without id, machine or node: %.80q", text)
	case !machineName.MatchString(h.Machine):
		err = fmt.Errorf("a turn of %.80q, which is no name of a machine", h.Machine)
	case len(h.Node) > 253, !nodeName.MatchString(h.Node):
		err = fmt.Errorf("a turn on %.80q, which is no name of a Node", h.Node)
	}
	return h, err
}

// keyName matches what the key of an annotation may have after its prefix. Each
// node can write what it likes to its own Node: with another name from there, the
// API server would refuse the ledger of all.
var keyName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$`)

// nodeName matches the name of a Node (RFC 1123 subdomain): it becomes part of the path of
// requests, and of what operators read.
var nodeName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$`)

// machineName matches the name of a machine, which may be longer: see [holderKey].
var machineName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?$`)

// String returns the text of an annotation.
func (h Holder) String() string {
	text, _ := json.Marshal(h) // Strings and a time only.
	return string(text)
}

// Annotations returns the annotations of the Lease. Those of others are kept, and so is
// the text of each entry that means what it meant: other programs write the same with
// spaces, later versions with more fields, and the admission policy lets an agent change
// the text of no turn but its own.
func (l Ledger) Annotations(before map[string]string) map[string]string {
	out := entries(l)
	if was, err := ReadLedger(before); err == nil {
		for key, text := range entries(was) {
			if kept, ok := before[key]; ok && out[key] == text {
				out[key] = kept
			}
		}
	}

	for key, text := range before {
		if !isOurs(key) {
			out[key] = text
		}
	}
	return out
}

// entries returns the annotations of a ledger as this version writes them.
func entries(l Ledger) map[string]string {
	out := map[string]string{}
	out[prefix+"state"] = string(l.State)
	if l.State == Running && l.Halted != "" {
		out[prefix+"state"] = halted
	}
	if why := cmp.Or(l.Why, l.Halted); why != "" {
		out[prefix+"why"] = why
	}
	if l.Halted != "" {
		out[prefix+halted] = l.Halted
	}

	out[prefix+"target"] = l.Target
	out[prefix+"revision"] = strconv.FormatUint(l.Revision, 10)
	if l.Nodes != "" {
		out[prefix+"nodes"] = l.Nodes
	}
	if !l.Begun.IsZero() {
		out[prefix+"begun"] = l.Begun.UTC().Format(time.RFC3339)
	}
	if l.Hurry != nil {
		text, _ := json.Marshal(l.Hurry) // Texts and a time only.
		out[prefix+"now"] = string(text)
	}
	for key, counter := range counters(&l) {
		out[prefix+key] = strconv.Itoa(*counter)
	}
	for target, r := range l.Systems {
		text, _ := json.Marshal(r) // Strings and numbers only.
		out[systemPrefix+target] = string(text)
		for of, n := range extras(&r) {
			if *n > 0 {
				out[of+target] = strconv.Itoa(*n)
			}
		}
	}
	for target, why := range l.Halts {
		out[haltPrefix+target] = why
	}
	for machine, h := range l.Holders {
		out[holderPrefix+holderKey(machine)] = h.String()
	}
	for machine, h := range l.Restored {
		out[restoredPrefix+holderKey(machine)] = h.String()
	}
	return out
}

func isOurs(key string) bool {
	return slices.ContainsFunc([]string{prefix, holderPrefix, restoredPrefix, systemPrefix,
		unlabelledPrefix, reachedPrefix, haltPrefix},
		func(p string) bool { return strings.HasPrefix(key, p) })
}

// Summary says in a line how far the rollouts are.
func (l Ledger) Summary() string {
	state := string(l.State)
	switch {
	case l.Halted == "":
	case l.State == Running:
		state = halted
	default:
		state += " and " + halted
	}
	text := fmt.Sprintf("%s: %d away, %d done, %d failed",
		state, len(l.Holders)+len(l.Restored), l.Done, l.Failed)

	for _, target := range slices.Sorted(maps.Keys(l.Systems)) {
		r := l.Systems[target]
		state := ""
		if r.Halted != "" {
			state = ", " + halted
		}
		text += fmt.Sprintf("; %s: %d done, %d failed%s", r.Version, r.Done, r.Failed, state)
	}
	return text
}

// clone returns a Ledger that shares nothing with l.
func (l Ledger) clone() Ledger {
	l.Holders = cloned(l.Holders)
	l.Restored = cloned(l.Restored)
	l.Systems = cloned(l.Systems)
	l.Halts = cloned(l.Halts)
	return l
}

// cloned returns a copy of m that is not nil.
func cloned[V any](m map[string]V) map[string]V {
	c := make(map[string]V, len(m))
	maps.Copy(c, m)
	return c
}

// has reports whether the machine has the turn id, also one that was restored.
func (l Ledger) has(machine, id string) bool {
	return id != "" && (l.Holders[machine].ID == id || l.Restored[machine].ID == id)
}
