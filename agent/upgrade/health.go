package upgrade

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// State is how one part of a node is.
type State string

const (
	// Well works.
	Well State = "well"
	// Ill does not.
	Ill State = "ill"
	// Unclear cannot be told now, as what would tell cannot be reached.
	Unclear State = "unclear"
)

// Health is how the parts of a node are, by their names: "unit kubelet.service",
// "node ready", "gateway".
type Health map[string]Check

// Check is one of them.
type Check struct {
	State State `json:"state"`
	// Detail says what was seen, for a person.
	Detail string `json:"detail,omitempty"`
}

// Word is the outcome of a judgement.
type Word string

const (
	// Wait is none yet.
	Wait Word = ""
	Good Word = "good"
	Bad  Word = "bad"
)

// Verdict is a judgement on a trial at one time.
type Verdict struct {
	Word   Word
	Reason string
	// Next is when to look again at the latest, on the clock of the node's uptime.
	Next time.Duration
}

// trialSteady is how long nothing may be worse than before for the trial to be
// good.
const trialSteady = 30 * time.Second

// Trial watches a system that was booted to be tried.
type Trial struct {
	// Baseline is how the node was before; without one, all has to be well.
	Baseline Health
	// Drill has the trial fail.
	Drill bool
	// Limit is how long after the start of the kernel the system may take to be as
	// well as that.
	Limit time.Duration

	wellSince time.Duration
	isWell    bool
}

// Judge takes in how the node is at uptime. Only what was well before counts
// against the new system, and what cannot be told now is no verdict: a server
// that is away says nothing about this node.
func (t *Trial) Judge(now Health, uptime time.Duration) Verdict {
	worse, unclear := compare(t.Baseline, now)
	if t.Drill {
		worse = append(worse, "the drill wants the trial to fail")
	}
	switch {
	case len(worse) > 0 && (uptime >= t.Limit || t.Drill):
		return Verdict{Word: Bad, Reason: strings.Join(worse, "; ")}
	case len(worse) > 0:
		t.isWell = false
		return Verdict{Reason: strings.Join(worse, "; "), Next: t.Limit}
	case len(unclear) > 0:
		t.isWell = false
		return Verdict{Reason: strings.Join(unclear, "; "), Next: uptime + trialSteady}
	case !t.isWell:
		t.isWell, t.wellSince = true, uptime
	}
	if uptime-t.wellSince >= trialSteady {
		return Verdict{Word: Good, Reason: "nothing is worse than before"}
	}
	return Verdict{Reason: "all is as well as before", Next: t.wellSince + trialSteady}
}

// compare says what is worse than before, and what cannot be told.
func compare(before, now Health) (worse, unclear []string) {
	for _, name := range slices.Sorted(maps.Keys(merged(before, now))) {
		was, is := before[name].State, now[name].State
		switch {
		case was != Well && was != "": // It was ill, or nobody could tell.
		case was == "" && len(before) > 0: // It is new; a new configuration has its own verdict.
		case is == Unclear:
			unclear = append(unclear, said(name, now[name], "cannot be told"))
		case is != Well:
			worse = append(worse, said(name, now[name], "is not there"))
		}
	}
	return worse, unclear
}

func said(name string, c Check, without string) string {
	if c.Detail == "" {
		return name + " " + without
	}
	return fmt.Sprintf("%s: %s", name, c.Detail)
}

func merged(a, b Health) Health {
	all := maps.Clone(a)
	if all == nil {
		all = Health{}
	}
	maps.Copy(all, b)
	return all
}
