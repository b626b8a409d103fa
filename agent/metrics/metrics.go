// Package metrics exports the state of the node in Prometheus' text format
// 0.0.4. Nothing is collected in advance: values are taken when they are
// requested.
//
//	GET /metrics --> Take --> Sample: status, Counters --Text--> page
//	                  ^
//	the loop answers between two steps, and owns the Counters
package metrics

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/hint/fault"
)

// Counters counts events since the start of the agent that the status does not
// have. The zero Counters is ready for use. One goroutine owns it and gives
// copies to others.
type Counters struct {
	// Applies counts changes by outcome, see apply.Outcome; ApplySeconds is how
	// long each took until its outcome.
	Applies      map[string]int
	ApplySeconds Histogram

	// WatchRestarts counts the watches on the cluster that were restarted.
	WatchRestarts int

	// Drained and Postponed count the drains of the node by how they ended.
	Drained, Postponed int

	// Turns counts the turns of the node.
	Turns Turns
}

// Turns counts turns by how they ended: the change was proven, failed, or could not
// begin.
type Turns struct{ Done, Failed, Postponed int }

// reverted is the outcome of a change that was reverted (apply.Reverted).
const reverted = "reverted"

// outcomes start at 0, so that the first of each is an increase.
var outcomes = [...]string{"applied", "failed", "replaced", reverted}

// Applied counts one change.
func (c *Counters) Applied(outcome string, took time.Duration) {
	if c.Applies == nil {
		c.Applies = map[string]int{}
	}
	c.Applies[outcome]++
	c.ApplySeconds.Observe(took)
}

// Clone returns a copy that does not change with c.
func (c Counters) Clone() Counters {
	c.Applies = maps.Clone(c.Applies)
	return c
}

// Sample is the state of the node at one time.
type Sample struct {
	Status   status.Status
	Counters Counters
	// Goroutines is the number of goroutines of the agent.
	Goroutines int
}

// Text returns the sample in Prometheus' text format.
func (s Sample) Text() string {
	var p page
	p.node(s.Status)
	p.changes(s.Counters)
	p.cluster(s.Status.Cluster, s.Counters)
	p.units(s.Status.Units)
	p.metric("process_resident_memory_bytes", gauge, "Resident memory of the agent.")
	p.value(float64(s.Status.AgentRSS))
	p.metric("go_goroutines", gauge, "Goroutines of the agent.")
	p.value(float64(s.Goroutines))

	return p.String()
}

// states are how a node can be.
var states = []status.Health{
	status.Well, status.Degraded, status.Unwell, status.Changing, status.Idle,
}

func (p *page) node(s status.Status) {
	p.metric("loam_generation_info", gauge,
		"The configuration that the node runs; no value if there is none.")
	if s.Generation != "" {
		p.value(1, "generation", s.Generation, "digest", s.Digest, "os_version", s.ImageVersion)
	}

	p.metric("loam_health", gauge,
		"1 for the state that the first line of loam status shows, 0 for the others.")
	health, _ := s.Assess()
	for _, state := range states {
		p.flag(health == state, "state", string(state))
	}

	p.metric("loam_storage_low", gauge,
		"1 for a file system that is full or nearly full; no value for any other.")
	for _, f := range s.Storage {
		p.value(1, "path", f.Path, "full", strconv.FormatBool(f.Full))
	}
	p.disks(s.Disks)
	p.metric("loam_pending", gauge, "1 while a change is applied or has not proven itself, else 0.")
	p.flag(s.Phase == status.Applying || s.Change != nil)
	p.metric("loam_drift_repaired_total", counter,
		"Managed paths that something else changed and the agent repaired.")
	p.value(float64(s.Drift.Repaired))
}

// disks is about the disks that say how they are.
func (p *page) disks(disks []status.Disk) {
	labels := func(d status.Disk) []string {
		return []string{"disk", d.Name, "model", d.Model, "serial", d.Serial}
	}
	ratio := func(name, help string, of func(status.Disk) *int) {
		p.metric(name, gauge, help)
		for _, d := range disks {
			if percent := of(d); percent != nil {
				p.value(float64(*percent)/100, labels(d)...)
			}
		}
	}

	p.metric("loam_disk_failing", gauge, "1 for a disk that says that it fails, else 0.")
	for _, d := range disks {
		p.flag(d.Code == fault.DiskFailing, labels(d)...)
	}
	ratio("loam_disk_used_ratio",
		"How much of the life that it is made for a disk has used; it may be above 1.",
		func(d status.Disk) *int { return d.Used })
	ratio("loam_disk_spare_ratio", "How many of its spare blocks a disk has left.",
		func(d status.Disk) *int { return d.Spare })
	p.metric("loam_disk_unreadable_blocks", gauge, "Blocks that a disk could not read.")
	for _, d := range disks {
		p.value(float64(d.Unreadable), labels(d)...)
	}
	p.metric("loam_disk_on_seconds", gauge, "How long a disk has been on; no value if it does not say.")
	for _, d := range disks {
		if d.Hours > 0 {
			p.value(float64(d.Hours)*3600, labels(d)...)
		}
	}
	p.metric("loam_disk_celsius", gauge, "Temperature of a disk; no value if it does not say.")
	for _, d := range disks {
		if d.Celsius > 0 {
			p.value(float64(d.Celsius), labels(d)...)
		}
	}
}

func (p *page) changes(c Counters) {
	p.metric("loam_applies_total", counter, "Changes of the configuration, by outcome.")
	all := map[string]int{}
	for _, outcome := range outcomes {
		all[outcome] = 0
	}

	maps.Copy(all, c.Applies)
	for _, outcome := range slices.Sorted(maps.Keys(all)) {
		p.value(float64(all[outcome]), "outcome", outcome)
	}

	p.metric("loam_reverts_total", counter, "Changes that were taken back.")
	p.value(float64(c.Applies[reverted]))
	p.histogram("loam_apply_seconds",
		"Time from the beginning of a change to its outcome.", c.ApplySeconds)
}

// turnClasses are what a change disturbs that needs a turn (agent/turns).
var turnClasses = [...]string{"kubelet", "pods", "reboot"}

// stopReasons are why no node of a rollout may begin (agent/turns).
var stopReasons = [...]string{"halted", "overdue", "paused", "pinned", "twin", "unselected"}

// turn is about the node's turn among those of its pool.
func (p *page) turn(t status.Turn, ended Turns) {
	p.metric("loam_turn_held", gauge,
		"1 while the node has its turn to change, by what that disturbs, else 0.")
	for _, class := range turnClasses {
		p.flag(t.Class == class, "class", class)
	}
	p.metric("loam_turn_since_seconds", gauge,
		"Unix time at which the node took its turn; no value without one.")
	if !t.Since.IsZero() {
		p.value(float64(t.Since.Unix()))
	}
	p.metric("loam_turn_overdue", gauge,
		"1 while the node has its turn for longer than the policy allows, else 0.")
	p.flag(t.Overdue)

	p.metric("loam_turn_waiting", gauge, "1 while a change waits for a turn, else 0.")
	p.flag(t.Waits != "")
	p.metric("loam_turn_waiting_since_seconds", gauge,
		"Unix time since which this run of the agent waits for a turn; no value if it does not.")
	if !t.WaitsSince.IsZero() {
		p.value(float64(t.WaitsSince.Unix()))
	}
	p.metric("loam_rollout_stopped", gauge,
		"1 for the reason that keeps the change that waits from beginning, else 0.")
	for _, reason := range stopReasons {
		p.flag(t.Stopped == reason, "reason", reason)
	}

	p.metric("loam_turns_total", counter, "Turns that the node gave, by outcome.")
	p.value(float64(ended.Done), "outcome", "done")
	p.value(float64(ended.Failed), "outcome", "failed")
	p.value(float64(ended.Postponed), "outcome", "postponed")
}

// cluster is left out on a node without one.
func (p *page) cluster(c *status.Cluster, counters Counters) {
	if c == nil {
		return
	}

	p.metric("loam_cluster_connected", gauge, "1 while the API server answers, else 0.")
	p.flag(c.Connected)
	p.metric("loam_node_registered", gauge, "1 while the Node exists, else 0.")
	p.flag(c.Node != "")
	p.turn(c.Turn, counters.Turns)
	p.metric("loam_watch_restarts_total", counter, "Watches on the cluster that were restarted.")
	p.value(float64(counters.WatchRestarts))
	p.metric("loam_drains_total", counter,
		"Drains of the node before changes that stop pods, by outcome.")
	p.value(float64(counters.Drained), "outcome", "drained")
	p.value(float64(counters.Postponed), "outcome", "postponed")
	p.metric("loam_certificate_expiry_seconds", gauge,
		"Unix time at which the node's certificate expires; no value without one.")

	if !c.Expires.IsZero() {
		p.value(float64(c.Expires.Unix()))
	}
}

// activeStates are systemd's states of a unit (systemctl(1)).
var activeStates = [...]string{
	"activating", "active", "deactivating", "failed", "inactive", "reloading",
}

func (p *page) units(units []status.Unit) {
	p.metric("loam_units", gauge, "Units of the configuration, by systemd's active state.")
	all := map[string]int{}
	for _, state := range activeStates {
		all[state] = 0
	}

	for _, u := range units {
		all[u.Active]++
	}

	for _, state := range slices.Sorted(maps.Keys(all)) {
		p.value(float64(all[state]), "state", state)
	}
}
