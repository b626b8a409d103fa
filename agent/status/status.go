package status

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/agent/printable"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/hint/redact"
)

// Path is the file with the status, for `loam status`.
const Path = "/run/loam/status.json"

// Phase is how far the node is with its configuration.
type Phase string

const (
	// Waiting means no configuration, and no source that has one.
	Waiting Phase = "waiting"
	// Applying means that files are written or units are starting.
	Applying Phase = "applying"
	// Applied means that the node matches its configuration, with every unit in
	// the desired state.
	Applied Phase = "applied"
	// Failed means that the node does not match the newest configuration; Error
	// has the reason.
	Failed Phase = "failed"
)

// Status is the state of one node. In JSON, times are as in RFC 3339, and durations
// are text such as "1m30s".
type Status struct {
	// Health says in one word how the node is: "well", "degraded", "not well",
	// "changing" or "idle".
	Health Health `json:"health,omitempty"`
	// Reason is why, in one sentence.
	Reason string `json:"reason,omitempty"`

	// Phase is "waiting", "applying", "applied" or "failed".
	Phase Phase `json:"phase"`
	// Error is why the node is not as it should be; nil if it is.
	Error *Error `json:"error,omitempty"`

	// ImageID is the name of the image that runs.
	ImageID string `json:"imageID"`
	// ImageVersion is its version.
	ImageVersion string `json:"imageVersion"`
	// Slot is where it runs from: "a", "b" or "memory".
	Slot string `json:"slot,omitempty"`
	// RootHash is the verity root hash of the system that runs, in hex.
	RootHash string `json:"rootHash,omitempty"`
	// Kernel is the release of its kernel.
	Kernel string `json:"kernel"`

	// SecureBoot is the firmware's state, "" if it does not support Secure
	// Boot.
	SecureBoot string `json:"secureBoot,omitempty"`

	// Encryption says what opened the encrypted state: tpm, key or recovery; ""
	// if the state is not encrypted.
	Encryption string `json:"encryption,omitempty"`

	// Hostname is the node's name.
	Hostname string `json:"hostname"`

	// Generation is a name such as 000042-0123456789ab, "" if none.
	Generation string `json:"generation,omitempty"`

	// Digest is the digest of the configuration, 64 hex digits.
	Digest string `json:"digest,omitempty"`

	// Source names the generation's document.
	Source string `json:"source,omitempty"`
	// Machine is the place where machine.yaml was found, and its serial number if it
	// is signed.
	Machine string `json:"machine,omitempty"`

	// Repository is where machine.yaml has releases of the image come from, "" for
	// nowhere.
	Repository string `json:"repository,omitempty"`

	// Missing says that the source has no document now, "" if it has one.
	Missing string `json:"missing,omitempty"`

	// Version is the version of the source's document that the node runs, after
	// all units have been in the desired state once; "" if the node runs
	// another document or the source has no versions.
	Version string `json:"version,omitempty"`

	// Offered is the version of the source's last document.
	Offered string `json:"offered,omitempty"`

	// Changing says that the node is being made something else, or is about to complete
	// what was cut off.
	Changing bool `json:"changing,omitempty"`

	// Unfinished says that the node is between two configurations, as a step has
	// failed; it is tried again.
	Unfinished bool `json:"unfinished,omitempty"`

	// Refused says that the node does not apply that document. Error has the
	// reason.
	Refused bool `json:"refused,omitempty"`

	// Refusal is the kind of that reason, "" if none or while the node is
	// between two configurations.
	Refusal Refusal `json:"refusal,omitempty"`

	// RevertedFrom is the generation of that document, "" unless Refusal is
	// Reverted.
	RevertedFrom string `json:"revertedFrom,omitempty"`

	// ControlPlane says that the node runs an API server.
	ControlPlane bool `json:"controlPlane,omitempty"`

	// StaticPods are the manifests of static pods in the generation, sorted.
	StaticPods []string `json:"staticPods,omitempty"`

	// Contents is the directory of the contents that documents refer to, "" for
	// none.
	Contents string `json:"contents,omitempty"`

	// DigestsOnly says that the node refuses images which a tag names.
	DigestsOnly bool `json:"digestsOnly,omitempty"`

	// Files counts the files of the generation.
	Files int `json:"files"`
	// Units are the units of the generation.
	Units []Unit `json:"units"`

	// Change is the change on trial; nil if none.
	Change *Change `json:"change,omitempty"`
	// Held is the source's configuration while an operator holds it; nil if none.
	Held *Held `json:"held,omitempty"`

	// TakenBack is the last change if the node took it back by itself, until the
	// next change; nil if it did not.
	TakenBack *TakenBack `json:"takenBack,omitempty"`

	// Awaited is the unit that a change waits for; nil if none.
	Awaited *Awaited `json:"awaited,omitempty"`

	// Drift counts managed paths that something else changed.
	Drift Drift `json:"drift,omitzero"`

	// Waits are files that are left out until the URLs in them answer.
	Waits []config.Probe `json:"waits,omitempty"`

	// Reset is the last reset, if the node was not configured since; nil for
	// none.
	Reset *Reset `json:"reset,omitempty"`

	// Notes are remarks about the source's document, for the operator.
	Notes []config.Note `json:"notes,omitempty"`

	// Update is what the configuration asks for beyond files and units.
	Update *config.Update `json:"update,omitempty"`

	// Network is the state of the node's network; nil until it is known.
	Network *Network `json:"network,omitempty"`

	// Upgrade is the state of upgrades; nil on a node that cannot be upgraded.
	Upgrade *Upgrade `json:"upgrade,omitempty"`

	// Cluster is the connection to the cluster; nil without one.
	Cluster *Cluster `json:"cluster,omitempty"`

	// OwnCluster is the cluster that the node makes by itself; nil if none.
	OwnCluster *OwnCluster `json:"ownCluster,omitempty"`

	// Volume is the data volume; nil if none is claimed.
	Volume *Volume `json:"volume,omitempty"`
	// EtcdVolume is the volume of etcd; nil if none is claimed.
	EtcdVolume *Volume `json:"etcdVolume,omitempty"`

	// Repair is the last repair of the state partition; nil if none.
	Repair *Repair `json:"repair,omitempty"`

	// Storage has the file systems with little room left; none if all have
	// enough.
	Storage []FileSystem `json:"storage,omitempty"`

	// Clock is why the clock may be wrong; nil if nothing says so.
	Clock *WrongClock `json:"clock,omitempty"`

	// Limits are the limits of the kernel, shared with pods, that are used up; none
	// if none is.
	Limits []Limit `json:"limits,omitempty"`

	// Disks are the disks that say how worn they are; nil until they were asked.
	Disks []Disk `json:"disks,omitempty"`

	// DebugShells are terminals on which a root shell is open.
	DebugShells []string `json:"debugShells,omitempty"`

	// Warnings are what an operator should look at although the node goes on.
	Warnings []string `json:"warnings,omitempty"`

	// Uptime is the time from kernel start to this status.
	Uptime Duration `json:"uptime"`
	// AppliedAt is the time from kernel start until the generation was first applied
	// in this boot; 0 if it was not.
	AppliedAt Duration `json:"appliedAt,omitempty"`

	// AgentRSS is the agent's resident memory in bytes.
	AgentRSS int64 `json:"agentRSS"`
}

// IsApplied reports whether the node runs the configuration of its generation.
// It is true even if a unit has failed since, or a unit on which nothing
// depends did not come up; Phase is Failed then.
func (s Status) IsApplied() bool { return s.AppliedAt > 0 && s.Phase != Applying }

// Refusal is why a node does not apply the newest document.
type Refusal string

const (
	// Invalid means that the document has errors.
	Invalid Refusal = "invalid"
	// Unavailable means that content the document refers to is missing.
	Unavailable Refusal = "unavailable"
	// NotApplied means that the node cannot apply it, for example for lack of
	// space.
	NotApplied Refusal = "notApplied"
	// Reverted means that it was applied and reverted.
	Reverted Refusal = "reverted"
)

// Volume is a disk for data of the node.
type Volume struct {
	// Device is the device node, "" if it is not mounted.
	Device string `json:"device,omitempty"`
	// FileSystem is ext4 or xfs.
	FileSystem string `json:"fileSystem,omitempty"`
	// Size is in bytes, 0 for a disk that is gone.
	Size int64 `json:"size,omitempty"`

	// Problem is why there is no volume, with each disk and its obstacle.
	Problem string `json:"problem,omitempty"`
	// Hint is what to do about it.
	Hint string `json:"hint,omitempty"`

	// Warnings are what is not as it should be although the volume is used.
	Warnings []string `json:"warnings,omitempty"`
}

// Fault returns what is wrong with the volume as an error, nil if nothing is.
func (v *Volume) Fault() *Error {
	if v == nil || v.Problem == "" {
		return nil
	}

	hint := v.Hint
	problem, more, _ := strings.Cut(v.Problem, "\n")
	if more != "" {
		hint = "`loam disks` shows each disk, and the line of machine.yaml that would take it"
	}
	return &Error{Problem: problem, Hint: hint}
}

// RepairState is how far a repair is.
type RepairState string

const (
	// Repairing means that it is under way. The machine restarts at its end.
	Repairing RepairState = "repairing"
	// RepairDone means that the partition is repaired.
	RepairDone RepairState = "repaired"
	// RepairReset means that the partition was formatted.
	RepairReset RepairState = "reset"
	// RepairFailed means that the partition is not used: the state of the node is
	// in memory.
	RepairFailed RepairState = "failed"
)

// Repair is about a state partition that was damaged.
type Repair struct {
	// State is how far the repair is.
	State RepairState `json:"state"`
	// At is when it began.
	At time.Time `json:"at"`

	// Device is the state partition, "" if it is absent.
	Device string `json:"device,omitempty"`
	// Damage is why it was not mounted.
	Damage string `json:"damage"`

	// Changes counts what e2fsck changed.
	Changes int `json:"changes,omitempty"`
	// First has the first of its messages.
	First []string `json:"first,omitempty"`
	// Log is the file with all of them, "" if none.
	Log string `json:"log,omitempty"`

	// Kept is the copy of a partition that was formatted, "" if there was no room
	// for it.
	Kept string `json:"kept,omitempty"`

	// Problem is why the partition is not used, or has no copy.
	Problem string `json:"problem,omitempty"`
	// Hint is what to do about the problem.
	Hint string `json:"hint,omitempty"`
	// Code names the problem for programs.
	Code fault.Code `json:"code,omitempty"`
}

// FileSystem is a file system with little room left.
type FileSystem struct {
	// Path is a directory on it: /var for the node's state, /var/lib/kubelet if
	// pods are on another disk, /run for what is in memory.
	Path string `json:"path"`

	// Free is how many bytes are left.
	Free int64 `json:"free"`
	// Size is how many bytes it has.
	Size int64 `json:"size"`
	// FreeInodes is how many inodes are left, 0 if it has no limit of them.
	FreeInodes int64 `json:"freeInodes"`
	// Inodes is how many inodes it has, 0 if it has no limit of them.
	Inodes int64 `json:"inodes"`

	// Full says that nothing more may fit; else it is nearly full.
	Full bool `json:"full"`

	// Problem says in a sentence what there is no room for.
	Problem string `json:"problem"`
	// Hint is what to do about it.
	Hint string `json:"hint"`
	// Code names the problem for programs.
	Code fault.Code `json:"code"`
}

// WrongClock is a clock that may be wrong.
type WrongClock struct {
	// Problem is why, with the times of the node and of the hardware.
	Problem string `json:"problem"`
	// Hint is what to do about it.
	Hint string `json:"hint"`
	// Code names the problem for programs.
	Code fault.Code `json:"code"`
}

// Limit is a limit of the kernel that is used up.
type Limit struct {
	// Name is "threads", "threads of pods", "open files", "open files of the agent",
	// "instances of inotify" or "watches of inotify".
	Name string `json:"name"`

	// Problem says in a sentence that it is used up.
	Problem string `json:"problem"`
	// Hint is what to do about it.
	Hint string `json:"hint"`
	// Code names the problem for programs.
	Code fault.Code `json:"code"`
}

// Disk is what a disk says of itself.
type Disk struct {
	// Name is the kernel's, such as nvme0n1.
	Name string `json:"name"`
	// Model is the model as the disk says.
	Model string `json:"model,omitempty"`
	// Serial is the serial number as the disk says.
	Serial string `json:"serial,omitempty"`

	// Used is how many percent of the life that it is made for are over, which may
	// be above 100; absent if the disk does not say.
	Used *int `json:"used,omitempty"`
	// Spare is how many percent of its spare blocks are left; absent if the disk
	// does not say.
	Spare *int `json:"spare,omitempty"`

	// Unreadable is how many blocks it could not read.
	Unreadable int64 `json:"unreadable,omitempty"`
	// Hours is how many hours it has been on.
	Hours int64 `json:"hours,omitempty"`
	// Celsius is its temperature in degrees.
	Celsius int `json:"celsius,omitempty"`

	// Problem says in a sentence that it fails or is worn; "" if neither.
	Problem string `json:"problem,omitempty"`
	// Hint is what to do about the problem.
	Hint string `json:"hint,omitempty"`
	// Code names the problem for programs.
	Code fault.Code `json:"code,omitempty"`
}

// Cluster is the connection to the node's cluster.
type Cluster struct {
	// Server is the URL of the API server.
	Server string `json:"server"`
	// Secret is the name of the Secret with the configuration.
	Secret string `json:"secret"`

	// Node is the name of the Node, "" before there is one.
	Node string `json:"node,omitempty"`

	// Connected says whether the API server answers.
	Connected bool `json:"connected"`
	// Since is since when it answers, or does not.
	Since time.Time `json:"since"`

	// Problem is the last error from the API server or on the way to it.
	Problem string `json:"problem,omitempty"`
	// Tried is what the node has tried: which server, as whom, from which addresses.
	Tried string `json:"tried,omitempty"`
	// Hint is what to do about the problem.
	Hint string `json:"hint,omitempty"`
	// Code names the problem for programs.
	Code fault.Code `json:"code,omitempty"`

	// Reached says that the API server has answered since the agent's start.
	Reached bool `json:"reached"`

	// Ready is the Node's condition Ready, as last seen at the API server.
	Ready bool `json:"ready,omitempty"`

	// Waits is what must happen before the Node reports the configuration as
	// applied, "" for nothing.
	Waits string `json:"waits,omitempty"`

	// Turn is the node's turn in its pool.
	Turn Turn `json:"turn,omitzero"`

	// Expires is the expiry of the node's certificate; zero without one.
	Expires time.Time `json:"expires,omitzero"`
}

// Turn is a node's turn to change in its pool.
type Turn struct {
	// For is what the node has its turn for: the version of a system, or the digest
	// of a configuration; "" if it has no turn.
	For string `json:"for,omitempty"`
	// Class is what the change disturbs.
	Class string `json:"class,omitempty"`
	// Since is when the node took its turn.
	Since time.Time `json:"since,omitzero"`

	// Overdue says that it has its turn for longer than the policy allows: the turn
	// counts as failed.
	Overdue bool `json:"overdue,omitempty"`

	// Waits is why the node has no turn yet, "" if it needs none.
	Waits string `json:"waits,omitempty"`
	// WaitsSince is since when this run of the agent has waited for a turn.
	WaitsSince time.Time `json:"waitsSince,omitzero"`
	// Stopped is why no node may begin, as this one last saw it: "halted", "overdue",
	// "paused", "pinned", "twin" or "unselected"; "" if others only come first.
	Stopped string `json:"stopped,omitempty"`
	// Problem is what is not as the policy of the pool means it, "" for nothing.
	Problem string `json:"problem,omitempty"`
}

// Network is the state of the node's network.
type Network struct {
	// From is where the configuration in force comes from.
	From NetworkSource `json:"from"`
	// Next says that another takes its place at the next boot.
	Next bool `json:"next,omitempty"`

	// Interfaces are the configured interfaces.
	Interfaces []Interface `json:"interfaces,omitempty"`
	// Problems are the problems of the interfaces, a line each.
	Problems []string `json:"problems,omitempty"`
}

// Alike reports whether other shows no news: the same addresses and the same
// problems.
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

// NetworkSource is where the network's configuration comes from.
type NetworkSource string

const (
	// NetworkOfMachine is the one in machine.yaml, NetworkKept its last one
	// while machine.yaml cannot be read, NetworkOfImage DHCP on every wired
	// interface.
	NetworkOfMachine NetworkSource = "machine.yaml"
	NetworkKept      NetworkSource = "kept"
	NetworkOfImage   NetworkSource = "image"
)

// Interface is a network interface.
type Interface struct {
	// Name is the kernel's name.
	Name string `json:"name"`
	// As is the name in machine.yaml, "" without one.
	As string `json:"as,omitempty"`
	// State is the operational state in the words of networkctl(1).
	State string `json:"state"`
	// Addresses are its addresses, with the length of their prefix.
	Addresses []string `json:"addresses,omitempty"`
}

// Change is a generation on trial.
type Change struct {
	// From is the generation before it, "" if none.
	From string `json:"from,omitempty"`
	// Good is the generation that the node reverts to if this one is bad.
	Good string `json:"good,omitempty"`
	// Until is when it is reverted unless confirmed; zero if it is not.
	Until time.Time `json:"until,omitzero"`
	// Waits is what the verdict waits for.
	Waits string `json:"waits,omitempty"`
}

// Awaited is a unit that a change waits for.
type Awaited struct {
	// Unit is its name.
	Unit string `json:"unit"`
	// State is its state in systemd, such as activating/start.
	State string `json:"state"`
	// Others counts further units that have a job of systemd.
	Others int `json:"others,omitempty"`
	// Deadline is when the change is reverted if the unit counts and is not up, as
	// time from kernel start; 0 if it is not.
	Deadline Duration `json:"deadline,omitempty"`
}

// Same reports whether a and other, which may be nil, are about the same unit.
func (a *Awaited) Same(other *Awaited) bool {
	return a == other || (a != nil && other != nil && a.Unit == other.Unit)
}

// Text describes a at the time now since kernel start.
func (a Awaited) Text(now time.Duration) string {
	text := a.Unit + ", which is " + a.State
	if a.Others > 0 {
		text += fmt.Sprintf(", and %d more", a.Others)
	}
	if a.Deadline > 0 {
		left := max(0, time.Duration(a.Deadline)-now).Round(time.Second)
		text += fmt.Sprintf("; taken back in %s if it is not up", left)
	}
	return text
}

// TakenBack is a change that the node took back because it made the node worse.
type TakenBack struct {
	// Generation is the generation that the node left.
	Generation string `json:"generation"`
	// Why is the reason.
	Why string `json:"why"`
}

// Held is a configuration that is not applied automatically.
type Held struct {
	// Digest is the first 12 digits of its digest.
	Digest string `json:"digest"`
	// Why is the reason.
	Why string `json:"why"`
}

// Upgrade is the state of upgrades.
type Upgrade struct {
	// Phase is "" if no upgrade is under way, else "staging", "armed" or
	// "trial".
	Phase string `json:"phase,omitempty"`

	// From is the version that runs, or ran before.
	From string `json:"from,omitempty"`
	// To is the version to which the node upgrades.
	To string `json:"to,omitempty"`
	// Target is the verity root hash of that version.
	Target string `json:"target,omitempty"`

	// Part is what is being written: "root", "verity" or "uki".
	Part string `json:"part,omitempty"`
	// Done is how many bytes of the part are right.
	Done int64 `json:"done,omitempty"`
	// Size is how many bytes the part has.
	Size int64 `json:"size,omitempty"`
	// Fetched is how many bytes were downloaded.
	Fetched int64 `json:"fetched,omitempty"`

	// Waits is the next step, or what it waits for.
	Waits string `json:"waits,omitempty"`
	// Problem is the last error.
	Problem string `json:"problem,omitempty"`

	// Held is why machine.yaml keeps the node from another system, "" if it does
	// not.
	Held string `json:"held,omitempty"`

	// Deadline is when a trial ends without success if something is worse then, as
	// time from kernel start; 0 without a trial.
	Deadline Duration `json:"deadline,omitempty"`

	// Restarts is when the maintenance window lets the machine restart with the
	// release; zero if it may now.
	Restarts time.Time `json:"restarts,omitzero"`
	// Retry is when what failed is tried again; zero if nothing is.
	Retry time.Time `json:"retry,omitzero"`

	// Other is the version of the system in the other slot, "" if it holds none.
	Other string `json:"other,omitempty"`

	// Releases are the versions that the repository had when it was read last, the
	// newest first; none before.
	Releases []string `json:"releases,omitempty"`

	// Failed are releases that failed here and are not tried again
	// automatically.
	Failed []FailedSystem `json:"failed,omitempty"`

	// Drill is the last drill; nil if none.
	Drill *Drill `json:"drill,omitempty"`

	// Damage says what is damaged on the EFI system partition and could not be
	// repaired: the next start may fail.
	Damage []string `json:"damage,omitempty"`

	// TableDamage says what is damaged of the partition table of the node's disk
	// and could not be repaired; "" if nothing is.
	TableDamage string `json:"tableDamage,omitempty"`
}

// Drill is the result of a drill of a fallback.
type Drill struct {
	// By is what failed on purpose: "check" or "panic".
	By string `json:"by"`
	// At is when the drill ended.
	At time.Time `json:"at"`

	// Boots is the number of failed boots.
	Boots int `json:"boots,omitempty"`
	// Took is the time from the restart to the end of the fallback.
	Took Duration `json:"took,omitempty"`

	// Problem is why the drill failed, "" if it succeeded.
	Problem string `json:"problem,omitempty"`
	// Hint is what to do about the problem, "" if unknown.
	Hint string `json:"hint,omitempty"`
}

// FailedSystem is a release that failed on this node.
type FailedSystem struct {
	// Version is the version of the release.
	Version string `json:"version"`
	// RootHash is its verity root hash, in hex.
	RootHash string `json:"rootHash"`
	// Reason is why it failed, for display.
	Reason string `json:"reason"`
	// Evidence are lines of logs that show why.
	Evidence []string `json:"evidence,omitempty"`
	// At is when the machine fell back.
	At time.Time `json:"at"`
}

// Reset is a reset of the node's configuration and identity by an operator.
type Reset struct {
	// At is when it began.
	At time.Time `json:"at"`
	// Done says that everything was removed.
	Done bool `json:"done"`
}

// Drift counts managed paths that were repaired since the agent started.
type Drift struct {
	// Repaired counts the paths.
	Repaired int `json:"repaired"`
	// Last is the path that was repaired last.
	Last string `json:"last,omitempty"`
	// At is when it was repaired, as time from kernel start.
	At Duration `json:"at,omitempty"`
}

// Error is the one error that is shown to an operator.
type Error struct {
	// Path is the place in the document, such as spec.units[2].name, or "".
	Path string `json:"path,omitempty"`

	// Document is the file in which the error is, "" if in none.
	Document string `json:"document,omitempty"`
	// Line is the line in it, from 1; 0 if unknown.
	Line int `json:"line,omitempty"`

	// Unit is the unit that failed, "" for any other error.
	Unit string `json:"unit,omitempty"`
	// Problem is what is wrong.
	Problem string `json:"problem"`
	// Hint is what to do about it.
	Hint string `json:"hint,omitempty"`

	// Code names the error for programs; docs/reference/errors.md has all codes.
	Code fault.Code `json:"code,omitempty"`
}

// String returns one line, DOCUMENT:LINE: PATH: PROBLEM; hint: HINT, without
// the parts that are unknown.
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
	// Name is its name.
	Name string `json:"name"`
	// Active is its state.
	Active string `json:"active"`
	// Sub is its finer state.
	Sub string `json:"sub"`
	// Settled says that the unit is in the desired state.
	Settled bool `json:"settled"`
	// InvocationID is of its last run.
	InvocationID string `json:"invocationID,omitempty"`
	// Since is when the state last changed, as time from kernel start.
	Since Duration `json:"since,omitempty"`
}

// Write writes s atomically to Path beneath node, the running root directory.
// Another boot has another. Who may not know the password of the repository cannot
// read it. Its texts are bounded, and fit for a terminal, and only the repository has
// the password of its URL.
func Write(node *durable.Dir, s Status) error {
	text, err := json.MarshalIndent(stored(s), "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", Path, err)
	}
	if err := node.MkdirAll("run/loam"); err != nil {
		return fmt.Errorf("write %s: %w", Path, err)
	}
	mode := fs.FileMode(0o640)
	if redact.URLs(s.Repository) != s.Repository {
		mode = 0o600
	}
	return node.WriteVolatile(Path[1:], append(text, '\n'), mode)
}

// Parse decodes what Write has written. Its texts are bounded, and fit for a
// terminal, also if something else has written it.
func Parse(text []byte) (Status, error) {
	var s Status
	err := json.Unmarshal(text, &s)
	if wrong, is := errors.AsType[*json.UnmarshalTypeError](err); is {
		err = fmt.Errorf("%s is of type %s", cmp.Or(wrong.Field, "the whole"), wrong.Value)
	}
	if err != nil {
		return Status{}, fault.With(fmt.Errorf("parse status: %w", err), fault.NotAStatus)
	}
	return stored(s), nil
}

// stored returns a status as the file has it: its texts are bounded, fit for a
// terminal and without the passwords of URLs. The repository keeps its own, as
// `loam plan` asks it.
func stored(s Status) Status {
	stored := printable.Copy(s)
	stored.Repository = printable.Text(s.Repository)
	return stored
}

// OwnCluster is a cluster that nodes make by themselves.
type OwnCluster struct {
	// Name is the name of the cluster.
	Name string `json:"name"`
	// Kubernetes is the version in the cluster record.
	Kubernetes string `json:"kubernetes"`

	// Ready is whether the cluster is as its record says: the API server answers,
	// and has the record and the add-ons.
	Ready bool `json:"ready"`
	// Problem is why it is not ready, "" while it starts.
	Problem string `json:"problem,omitempty"`
}
