// Package status is what the agent says of its node: a value with a stable
// JSON form, and a table for a console.
package status

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
)

// Path is where the agent leaves the status for `loam status`.
const Path = "/run/loam/status.json"

// Phase is how far the node is with its configuration.
type Phase string

const (
	// Waiting has no configuration and no source that gives one.
	Waiting Phase = "waiting"
	// Applying is on the way: files are written or units are starting.
	Applying Phase = "applying"
	// Applied is as the configuration says, every unit in its wanted state.
	Applied Phase = "applied"
	// Failed is not as the newest configuration says; Error tells why.
	Failed Phase = "failed"
)

// Status is the state of one node. Durations are nanoseconds in JSON.
type Status struct {
	Phase Phase  `json:"phase"`
	Error *Error `json:"error,omitempty"`

	ImageID      string `json:"imageID"`
	ImageVersion string `json:"imageVersion"`
	Slot         string `json:"slot,omitempty"`
	RootHash     string `json:"rootHash,omitempty"`
	Kernel       string `json:"kernel"`

	// SecureBoot is how the firmware stands to it, "" if it does not know it.
	SecureBoot string `json:"secureBoot,omitempty"`
	Hostname   string `json:"hostname"`

	// Generation is a name such as 000042-0123456789ab, "" if there is none.
	Generation string `json:"generation,omitempty"`

	// Digest is that of the configuration, 64 hex digits.
	Digest string `json:"digest,omitempty"`

	// Source names the document that the generation came from, Machine the
	// place where machine.yaml was found.
	Source  string `json:"source,omitempty"`
	Machine string `json:"machine,omitempty"`

	// Missing says that the source has no document now, "" if it has.
	Missing string `json:"missing,omitempty"`

	// Version is that of the source's document that the node runs, with all
	// units as wanted at least once; "" if it runs another or the source has no
	// versions.
	Version string `json:"version,omitempty"`

	// Offered is that of the document that the source gave last.
	Offered string `json:"offered,omitempty"`

	// Refused says that the node does not do what that asks, and Error why.
	Refused bool `json:"refused,omitempty"`

	// Refusal is what kind of reason that is, "" for none, or where the node is
	// between two configurations.
	Refusal Refusal `json:"refusal,omitempty"`

	// ControlPlane says that the node runs an API server.
	ControlPlane bool `json:"controlPlane,omitempty"`

	// StaticPods are the manifests of static pods that the generation has,
	// sorted.
	StaticPods []string `json:"staticPods,omitempty"`

	// Contents is the directory of what documents refer to, "" for none.
	Contents string `json:"contents,omitempty"`
	Files    int    `json:"files"`
	Units    []Unit `json:"units"`

	// Change is one that has not proven itself yet, Held the configuration of
	// the source while a person wants another; nil if there is none.
	Change *Change `json:"change,omitempty"`
	Held   *Held   `json:"held,omitempty"`

	// Drift is what something else changed of the managed paths.
	Drift Drift `json:"drift,omitzero"`

	// Waits are files that are left out until what they point at answers.
	Waits []config.Probe `json:"waits,omitempty"`

	// Reset is one that the node was not configured since; nil for none.
	Reset *Reset `json:"reset,omitempty"`

	// Notes are what a person should know of the source's document.
	Notes []config.Note `json:"notes,omitempty"`

	// Update is what the configuration asks for beyond files and units.
	Update *config.Update `json:"update,omitempty"`

	// Network is how the node is reached; nil before anything is known of it.
	Network *Network `json:"network,omitempty"`

	// Upgrade is what is known of other systems for this node; nil where it
	// cannot bring any.
	Upgrade *Upgrade `json:"upgrade,omitempty"`

	// Cluster is how the node stands with its cluster; nil without one.
	Cluster *Cluster `json:"cluster,omitempty"`

	// Volume is the data volume; nil if none is claimed.
	Volume *Volume `json:"volume,omitempty"`

	// DebugShells are terminals on which a root shell is open.
	DebugShells []string `json:"debugShells,omitempty"`
	Warnings    []string `json:"warnings,omitempty"`

	// Uptime is the time from kernel start to this status, AppliedAt to when
	// the generation was first seen applied in this boot; 0 if it was not.
	Uptime    time.Duration `json:"uptime"`
	AppliedAt time.Duration `json:"appliedAt,omitempty"`

	// AgentRSS is the agent's resident memory in bytes.
	AgentRSS int64 `json:"agentRSS"`
}

// IsApplied reports whether the node runs the configuration of its generation.
// A unit may have failed since, or not have come up if that holds nothing:
// Phase is Failed then.
func (s Status) IsApplied() bool { return s.AppliedAt > 0 && s.Phase != Applying }

// Refusal is why a node does not do what the newest document asks.
type Refusal string

const (
	// Invalid documents are wrong in themselves.
	Invalid Refusal = "invalid"
	// Unavailable is something that the document refers to.
	Unavailable Refusal = "unavailable"
	// NotApplied is what the node cannot do, such as for lack of room.
	NotApplied Refusal = "notApplied"
	// Reverted is what was applied and taken back.
	Reverted Refusal = "reverted"
)

// Volume is the disk for what the kubelet keeps.
type Volume struct {
	// Device is "" if it is not mounted, FileSystem ext4 or xfs, Size in bytes,
	// 0 for a disk that is gone.
	Device     string `json:"device,omitempty"`
	FileSystem string `json:"fileSystem,omitempty"`
	Size       int64  `json:"size,omitempty"`

	// Problem is what is wrong with it, with each disk and what stands in its
	// way.
	Problem  string   `json:"problem,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// Cluster is the cluster a node is part of.
type Cluster struct {
	// Server is the URL of its API server, Secret what has the configuration.
	Server string `json:"server"`
	Secret string `json:"secret"`

	// Node is the name of the node's object, "" before there is one.
	Node string `json:"node,omitempty"`

	// Connected says that the API server answers, or does not, since then;
	// Problem is what it, or the way to it, said last.
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since"`
	Problem   string    `json:"problem,omitempty"`

	// Reached says that it has answered since the agent's start.
	Reached bool `json:"reached"`

	// Ready says that the Node is, as far as the API server has told.
	Ready bool `json:"ready,omitempty"`

	// Waits is what the Node waits for before it says that the configuration is
	// applied, "" for nothing.
	Waits string `json:"waits,omitempty"`

	// Expires is when the node's certificate does; zero without one.
	Expires time.Time `json:"expires,omitzero"`
}

// Network is what the node has of networks.
type Network struct {
	// From says where the configuration in force comes from, Next that another
	// takes its place at the next boot.
	From NetworkSource `json:"from"`
	Next bool          `json:"next,omitempty"`

	// Interfaces are those that have been configured, Problems what is wrong
	// with them, a line each.
	Interfaces []Interface `json:"interfaces,omitempty"`
	Problems   []string    `json:"problems,omitempty"`
}

// Alike reports whether a person would see no news in other: the same
// addresses, and the same problems.
func (n *Network) Alike(other *Network) bool {
	if n == nil || other == nil {
		return n == other
	}
	addresses := func(a, b Interface) bool {
		return a.Name == b.Name && slices.Equal(a.Addresses, b.Addresses)
	}
	return n.From == other.From && n.Next == other.Next && slices.EqualFunc(n.Interfaces,
		other.Interfaces, addresses) && slices.Equal(n.Problems, other.Problems)
}

// NetworkSource is where the configuration of a network comes from.
type NetworkSource string

const (
	// NetworkOfMachine is that of machine.yaml, NetworkKept the one that it
	// gave last, as it cannot be read now, NetworkOfImage DHCP on every wired
	// interface.
	NetworkOfMachine NetworkSource = "machine.yaml"
	NetworkKept      NetworkSource = "kept"
	NetworkOfImage   NetworkSource = "image"
)

// Interface is one of a network.
type Interface struct {
	// Name is the kernel's, As that of machine.yaml, "" without one.
	Name string `json:"name"`
	As   string `json:"as,omitempty"`
	// State is the operational state in the words of networkctl(1).
	State     string   `json:"state"`
	Addresses []string `json:"addresses,omitempty"`
}

// Change is a generation that is being watched.
type Change struct {
	From string `json:"from,omitempty"`
	// Good is the generation that the node goes back to if this one is bad.
	Good string `json:"good,omitempty"`
	// Until is when it goes back unless it is confirmed; zero if it does not.
	Until time.Time `json:"until,omitzero"`
	// Waits says what the verdict waits for.
	Waits string `json:"waits,omitempty"`
}

// Held is a configuration that is not applied by itself.
type Held struct {
	// Digest is the first 12 digits.
	Digest string `json:"digest"`
	Why    string `json:"why"`
}

// Upgrade is one system taking the place of another.
type Upgrade struct {
	// Phase is "" where nothing is under way, else "staging", "armed", "trial".
	Phase string `json:"phase,omitempty"`

	// From and To are versions.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`

	// Part is what is written: "root", "verity" or "uki", of which Done of Size
	// bytes are right; Fetched bytes came from elsewhere.
	Part    string `json:"part,omitempty"`
	Done    int64  `json:"done,omitempty"`
	Size    int64  `json:"size,omitempty"`
	Fetched int64  `json:"fetched,omitempty"`

	// Waits says what comes next, or what keeps it; Problem what is wrong.
	Waits   string `json:"waits,omitempty"`
	Problem string `json:"problem,omitempty"`

	// Failed are systems that were tried here and are not tried again by
	// themselves.
	Failed []FailedSystem `json:"failed,omitempty"`

	// Drill is the last one; nil if there was none.
	Drill *Drill `json:"drill,omitempty"`
}

// Drill is how a drill of a fallback went.
type Drill struct {
	// By is what failed on purpose: "check" or "panic".
	By string    `json:"by"`
	At time.Time `json:"at"`

	// Boots are those that failed, Took is from the order to restart to the end
	// of the fallback.
	Boots int           `json:"boots,omitempty"`
	Took  time.Duration `json:"took,omitempty"` // nanoseconds

	// Problem is why the machine did not do it.
	Problem string `json:"problem,omitempty"`
}

// FailedSystem is one of them.
type FailedSystem struct {
	Version  string `json:"version"`
	RootHash string `json:"rootHash"`
	// Reason says why, for a person; Evidence are lines that show it.
	Reason   string    `json:"reason"`
	Evidence []string  `json:"evidence,omitempty"`
	At       time.Time `json:"at"`
}

// Reset is a node without configuration and identity, as a person wants it.
type Reset struct {
	At time.Time `json:"at"`
	// Done says that nothing of them is left.
	Done bool `json:"done"`
}

// Drift counts managed paths that were repaired since the agent started.
type Drift struct {
	Repaired int `json:"repaired"`
	// Last is the path repaired last, At when, as time from kernel start.
	Last string        `json:"last,omitempty"`
	At   time.Duration `json:"at,omitempty"`
}

// Error is the one error a person is shown.
type Error struct {
	// Path is where in the document, such as spec.units[2].name, or "".
	Path string `json:"path,omitempty"`

	// Document and Line are where in the text; Line counts from 1, 0 is
	// unknown.
	Document string `json:"document,omitempty"`
	Line     int    `json:"line,omitempty"`

	// Unit is one that has failed, "" where that is not what is wrong.
	Unit    string `json:"unit,omitempty"`
	Problem string `json:"problem"`
	Hint    string `json:"hint,omitempty"`
}

// String is one line: DOCUMENT:LINE: PATH: PROBLEM; hint: HINT, without what is
// not known.
func (e Error) String() string {
	at := e.Document
	if e.Line > 0 {
		at += fmt.Sprintf(":%d", e.Line)
	}

	var b strings.Builder
	for _, part := range []string{at, e.Path} {
		if part != "" {
			b.WriteString(part + ": ")
		}
	}

	b.WriteString(e.Problem)
	if e.Hint != "" {
		b.WriteString("; hint: " + e.Hint)
	}

	return b.String()
}

// Unit is the state of one unit of the configuration; see systemd.unit(5) for
// the words.
type Unit struct {
	Name   string `json:"name"`
	Active string `json:"active"`
	Sub    string `json:"sub"`
	// Settled says that the unit is in the state the configuration wants.
	Settled      bool   `json:"settled"`
	InvocationID string `json:"invocationID,omitempty"`
	// Since is when the state last changed, as time from kernel start.
	Since time.Duration `json:"since,omitempty"`
}

// Write leaves s at Path beneath node, the running root directory, whole at
// every moment; another boot has another.
func Write(node *durable.Dir, s Status) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", Path, err)
	}
	if err := node.MkdirAll("run/loam"); err != nil {
		return fmt.Errorf("write %s: %w", Path, err)
	}
	return node.WriteVolatile(Path[1:], append(text, '\n'), 0o644)
}

// Parse reads what Write has written.
func Parse(text []byte) (Status, error) {
	var s Status
	if err := json.Unmarshal(text, &s); err != nil {
		return Status{}, fmt.Errorf("parse status: %w", err)
	}
	return s, nil
}
