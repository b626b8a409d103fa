// Package health judges whether a change has made a node worse: values in, a
// verdict out. It does not act on it.
package health

import (
	"fmt"
	"slices"
	"time"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/unit"
)

// Well reports whether a unit is as a generation wants it, and if not, how it is.
func Well(want generation.Unit, s unit.State) (bool, string) {
	ok := s.Started()
	switch {
	case want.Stopped && want.OnDemand:
		ok = true // It is not enabled, and what its trigger makes of it is its own affair.
	case want.Stopped:
		ok = s.Stopped()
	case want.OnDemand:
		ok = s.Active != "failed"
	}
	if ok {
		return true, ""
	}
	if s.Active == "failed" {
		return false, fmt.Sprintf("unit %s failed: %s, exit code %d", s.Name, s.Result, s.ExitCode)
	}
	return false, fmt.Sprintf("unit %s is %s/%s", s.Name, s.Active, s.Sub)
}

// loops is how many times systemd restarts a service before it counts as one
// that does not stay up.
const loops = 3

// Broken are the units of want that are not well before it is applied: what
// they do afterwards does not count against it. A unit that is on its way is
// not broken. now is on the clock of unit.State.Since.
func Broken(have, want generation.Manifest, states []unit.State, now time.Duration) []string {
	before := map[string]generation.Unit{}
	for _, u := range have.Units {
		before[u.Name] = u
	}
	var broken []string
	for _, u := range want.Units {
		i := slices.IndexFunc(states, func(s unit.State) bool { return s.Name == u.Name })
		if i < 0 {
			continue
		}
		s := states[i]
		old, listed := before[u.Name]
		well, _ := Well(old, s)
		looping := s.Sub == "auto-restart" || s.Restarts >= loops && now-s.Since < time.Minute
		if s.Active == "failed" || looping || listed && !well && s.Stopped() {
			broken = append(broken, u.Name)
		}
	}
	return broken
}

// Word is the outcome of a judgement.
type Word string

const (
	// Wait is no outcome yet; look again at Verdict.Next, or when a unit changes.
	Wait Word = "wait"
	Good Word = "good"
	// Confirm is Good but for the person who has to say so until Verdict.Next.
	Confirm Word = "confirm"
	Bad     Word = "bad"
)

// Verdict is a judgement at one time.
type Verdict struct {
	Word Word
	// Reason says what is wrong, of Bad, or waited for.
	Reason string
	// Next is when to look again at the latest.
	Next time.Duration
}

// Gate watches one generation after it was applied. All times are on one clock
// that does not stop, such as the time since boot.
type Gate struct {
	Want generation.Manifest
	// Broken are left out of the judgement.
	Broken []string
	// Failed is what systemd said of each unit that it could not start, stop or
	// restart.
	Failed map[string]error
	// Since is when the change was done. It is good when all units have been
	// well for Steady without a break, and bad if that has not begun after Limit.
	Since, Steady, Limit time.Duration

	wellSince time.Duration
	restarts  map[string]int
	first     map[string]int
}

// Judge takes in how the units of Want are at time now.
func (g *Gate) Judge(states []unit.State, now time.Duration) Verdict {
	steady := g.count(states)
	waiting := ""
	for _, u := range g.Want.Units {
		i := slices.IndexFunc(states, func(s unit.State) bool { return s.Name == u.Name })
		if i < 0 || slices.Contains(g.Broken, u.Name) {
			continue
		}
		s := states[i]
		if n := s.Restarts - g.first[u.Name]; n >= loops {
			return Verdict{Word: Bad, Reason: fmt.Sprintf("unit %s does not stay up: systemd has restarted it %d times", u.Name, n)}
		}
		well, how := Well(u, s)
		switch {
		case well:
			continue
		case s.Active == "failed" && !s.Job:
			return Verdict{Word: Bad, Reason: how}
		case g.Failed[u.Name] != nil && !s.Job:
			return Verdict{Word: Bad, Reason: g.Failed[u.Name].Error()}
		}
		waiting = how
	}
	switch {
	case waiting != "" && now-g.Since >= g.Limit:
		return Verdict{Word: Bad, Reason: fmt.Sprintf("%s after %s", waiting, (now - g.Since).Round(time.Second))}
	case waiting != "":
		g.wellSince = 0
		return Verdict{Word: Wait, Reason: waiting, Next: g.Since + g.Limit}
	case g.wellSince == 0 || !steady:
		g.wellSince = now
	}
	if now-g.wellSince >= g.Steady {
		return Verdict{Word: Good}
	}
	return Verdict{Word: Wait, Reason: "all units are well", Next: g.wellSince + g.Steady}
}

// count keeps how often systemd has restarted each service by itself and
// reports whether that is as it was before. What was broken may go on as it did.
func (g *Gate) count(states []unit.State) bool {
	if g.first == nil {
		g.first, g.restarts = map[string]int{}, map[string]int{}
		for _, s := range states {
			g.first[s.Name], g.restarts[s.Name] = s.Restarts, s.Restarts
		}
	}
	same := true
	for _, s := range states {
		same = same && (g.restarts[s.Name] == s.Restarts || slices.Contains(g.Broken, s.Name))
		g.restarts[s.Name] = s.Restarts
	}
	return same
}
