// Package health judges whether a change has made a node worse: values in, a
// verdict out. It does not act on it.
//
// The units that count are the units that were well when the change began, and
// the kubelet, containerd and what they require, unless they were broken
// before. A unit of the image that no configuration listed before counts if it
// was up. Of a change that replaces one without a verdict, what was well before
// both counts. What a timer, path or socket starts is judged by its last result
// alone.
//
// A change has proved itself when all of these have been well for 10 s without
// a break. One of them that fails, that systemd restarts three times, or that
// is not up after 3 minutes reverts it. A unit that was never well on this node
// reverts nothing, because going back would not make it well: it is a warning
// and an Event.
package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/unit"
)

// Well reports whether a unit is as a generation wants it, and if not, how it
// is.
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

// OnItsWay reports whether a unit may yet become well by itself. One that
// systemd restarts again and again is not on its way.
func OnItsWay(s unit.State) bool {
	moving := slices.Contains([]string{"activating", "deactivating", "reloading"}, s.Active)
	return s.Job || moving && s.Sub != autoRestart
}

// autoRestart is the sub-state of a service that has ended and that systemd is
// about to restart.
const autoRestart = "auto-restart"

// loops is how many times systemd restarts a service before it counts as one
// that does not stay up, recently for how long a restart raises doubts.
const (
	loops    = 3
	recently = time.Minute
)

// Before sorts units by how they are before have is replaced. A unit was well
// if have wants it up and it is as have wants it. One that have does not list,
// such as a unit of the image that gets its first drop-in, was well if it was
// up. A unit that is on its way, or that systemd has restarted of late, was
// neither well nor broken. now is on the clock of unit.State.Since.
func Before(
	have generation.Manifest, states []unit.State, now time.Duration,
) (well, broken []string) {
	before := map[string]generation.Unit{}
	for _, u := range have.Units {
		before[u.Name] = u
	}

	for _, s := range states {
		old, listed := before[s.Name]
		isWell, _ := Well(old, s)
		if !listed {
			isWell = s.Running() && !s.Job
		}

		restarts := s.Restarts
		if now-s.Since >= recently {
			restarts = 0
		}

		switch {
		case isWell && !old.Stopped && restarts == 0:
			well = append(well, s.Name)
		case s.Active == "failed", s.Sub == autoRestart, restarts >= loops, listed &&
			!isWell && s.Stopped():
			broken = append(broken, s.Name)
		}
	}

	return well, broken
}

// Counts reports whether a unit has a say in the verdict on a change, given
// what Before found. Those count that were well before, and those without which
// the node runs no pods, unless they were broken. Any other has never been well
// here: going back would not make it so.
func Counts(u generation.Unit, well, broken []string) bool {
	return slices.Contains(well, u.Name) || u.Essential && !slices.Contains(broken, u.Name)
}

// Word is the outcome of a judgement.
type Word string

const (
	// Wait is no outcome yet; look again at Verdict.Next, or when a unit
	// changes.
	Wait Word = "wait"
	Good Word = "good"
	// Confirm is Good but for the person who has to say so until Verdict.Next.
	Confirm Word = "confirm"
	Bad     Word = "bad"
)

// Verdict is a judgement at one time.
type Verdict struct {
	Word Word

	// Reason says what is wrong, with a unit that does not count if Word is
	// Good, or what is waited for.
	Reason string

	// Next is when to look again at the latest.
	Next time.Duration

	// Unwell are the units that do not count and are not well, of Good.
	Unwell []Unwell
}

// Unwell is a unit that is not as it is wanted, and how it is.
type Unwell struct{ Unit, How string }

// Gate watches one generation after it was applied: the units of it that count.
// All times are on one clock that does not stop, such as the time since boot.
type Gate struct {
	Want generation.Manifest

	// Well and Broken are what Before found: see Counts.
	Well, Broken []string

	// Failed is what systemd said of each unit that it could not start, stop or
	// restart.
	Failed map[string]error

	// Since is when the change was done. It is good when all of them have been
	// well for Steady without a break, and bad if that has not begun after
	// Limit.
	Since, Steady, Limit time.Duration

	wellSince time.Duration
	restarts  map[string]int
	first     map[string]int
	counts    map[string]bool
}

// Judge takes in how the units of Want are at time now.
func (g *Gate) Judge(states []unit.State, now time.Duration) Verdict {
	steady := g.count(states)
	waiting := ""
	for _, u := range g.Want.Units {
		i := slices.IndexFunc(states, func(s unit.State) bool { return s.Name == u.Name })
		if i < 0 || !g.counts[u.Name] {
			continue
		}

		s := states[i]
		if n := s.Restarts - g.first[u.Name]; n >= loops {
			return Verdict{Word: Bad, Reason: doesNotStayUp(u.Name, n)}
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
		return Verdict{
			Word:   Bad,
			Reason: fmt.Sprintf("%s after %s", waiting, (now - g.Since).Round(time.Second)),
		}
	case waiting != "":
		g.wellSince = 0
		return Verdict{Word: Wait, Reason: waiting, Next: g.Since + g.Limit}
	case g.wellSince == 0 || !steady:
		g.wellSince = now
	}

	if now-g.wellSince >= g.Steady {
		unwell := g.unwell(states)
		return Verdict{Word: Good, Reason: inWords(unwell), Unwell: unwell}
	}

	return Verdict{
		Word:   Wait,
		Reason: "all units that count are well",
		Next:   g.wellSince + g.Steady,
	}
}

// unwell are the units that do not count and are not well. What is still on its
// way is left out.
func (g *Gate) unwell(states []unit.State) []Unwell {
	var all []Unwell
	for _, u := range g.Want.Units {
		i := slices.IndexFunc(states, func(s unit.State) bool { return s.Name == u.Name })
		if i < 0 || g.counts[u.Name] {
			continue
		}

		s := states[i]
		well, how := Well(u, s)
		restarts := s.Restarts - g.first[u.Name]
		notDone := g.Failed[u.Name] != nil && !u.Stopped && !s.Started()
		switch {
		case restarts > 0:
			all = append(all, Unwell{u.Name, doesNotStayUp(u.Name, restarts)})
		case OnItsWay(s):
		case notDone:
			all = append(all, Unwell{u.Name, g.Failed[u.Name].Error()})
		case !well:
			all = append(all, Unwell{u.Name, how})
		}
	}

	return all
}

// inWords is how units are, for a person; "" without any.
func inWords(units []Unwell) string {
	var how []string
	for _, u := range units {
		how = append(how, u.How)
	}
	return strings.Join(how, "; ")
}

func doesNotStayUp(name string, restarts int) string {
	often := "once"
	if restarts > 1 {
		often = fmt.Sprintf("%d times", restarts)
	}
	return fmt.Sprintf("unit %s does not stay up: systemd has restarted it %s", name, often)
}

// count keeps how often systemd has restarted each service by itself and
// reports whether that is as it was before, of those that count.
func (g *Gate) count(states []unit.State) bool {
	if g.first == nil {
		g.first = map[string]int{}
		g.restarts = map[string]int{}
		g.counts = map[string]bool{}

		for _, s := range states {
			g.first[s.Name] = s.Restarts
			g.restarts[s.Name] = s.Restarts
		}

		for _, u := range g.Want.Units {
			g.counts[u.Name] = Counts(u, g.Well, g.Broken)
		}
	}

	same := true
	for _, s := range states {
		same = same && (g.restarts[s.Name] == s.Restarts || !g.counts[s.Name])
		g.restarts[s.Name] = s.Restarts
	}

	return same
}
