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
// a break. systemd calls a service up that has not read its flags yet, so those
// that can be asked, the kubelet and containerd, must first have answered, if
// they did before the change. One of them that fails, that systemd restarts
// three times, or that is not up 3 minutes after it was asked to start reverts
// it; see [Patience] for a unit that asks for longer. A unit that was never well
// on this node reverts nothing, because going back would not make it well: it is
// a warning and an Event.
package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/agent/unit"
)

// Well reports whether a unit is in the desired state and, if not, describes
// its state.
func Well(want generation.Unit, s unit.State) (bool, string) {
	ok := s.Started()
	switch {
	case want.Stopped && want.OnDemand:
		ok = true // It is not enabled, so its trigger does not count.
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

// OnItsWay reports whether a unit may still become healthy by itself. A unit
// that systemd restarts again and again is not on its way.
func OnItsWay(s unit.State) bool {
	moving := slices.Contains([]string{"activating", "deactivating", "reloading"}, s.Active)
	return s.Job || (moving && s.Sub != autoRestart)
}

// autoRestart is the sub-state of a service that has ended and that systemd is
// about to restart.
const autoRestart = "auto-restart"

// maxRestarts is how many restarts by systemd mean that a service does not stay
// up. recently is how long a restart raises doubts.
const (
	maxRestarts = 3
	recently    = time.Minute
)

// Patience returns how long to wait for the start of a unit: usual, or a moment
// longer than systemd waits if the unit asks for more than it gives to any
// (TimeoutStartSec=), as a Kubernetes API server does for slow machines. A unit
// that asks for more than mostPatience gets that.
func Patience(usual time.Duration, s unit.State) time.Duration {
	if s.StartLimit <= systemdPatience {
		return usual
	}
	return max(usual, min(s.StartLimit, mostPatience)+10*time.Second)
}

// systemdPatience is DefaultTimeoutStartSec= (systemd-system.conf(5)).
const (
	systemdPatience = 90 * time.Second
	mostPatience    = 5 * time.Minute
)

// Before sorts units by their state before have is replaced. A unit was well if
// have wants it up and it is in the desired state. A unit that have does not
// list, such as a unit of the image that gets its first drop-in, was well if it
// was up. A unit that is starting, or that systemd has restarted recently, was
// neither well nor broken. now is on the clock of [unit.State.Since], which is
// CLOCK_MONOTONIC.
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
		case s.Active == "failed", s.Sub == autoRestart, restarts >= maxRestarts,
			listed && !isWell && s.Stopped():
			broken = append(broken, s.Name)
		}
	}

	return well, broken
}

// Counts reports whether a unit counts for the verdict on a change, given the
// result of Before. Units that were well before count, and the units without
// which the node runs no pods, unless they were broken. Any other unit was
// never well on this node, and a revert would not change that.
func Counts(u generation.Unit, well, broken []string) bool {
	return slices.Contains(well, u.Name) || (u.Essential && !slices.Contains(broken, u.Name))
}

// Word is the outcome of a judgement.
type Word string

const (
	// Wait means no outcome yet; judge again at Verdict.Next or when a unit
	// changes.
	Wait Word = "wait"
	Good Word = "good"
	// Confirm means Good, if an operator confirms it before Verdict.Next.
	Confirm Word = "confirm"
	Bad     Word = "bad"
)

// Verdict is a judgement at one time.
type Verdict struct {
	Word Word

	// Reason is the problem, or what the verdict waits for. If Word is Good, it
	// names an unhealthy unit that does not count.
	Reason string

	// Unit is the bad unit, or the unit that the verdict waits for; empty for
	// none. Deadline is when the change is bad if that unit is not up, 0 for no
	// unit.
	Unit     string
	Deadline time.Duration

	// Next is when to judge again at the latest.
	Next time.Duration

	// Unwell are the unhealthy units that do not count, if Word is Good.
	Unwell []Unwell
}

// Unwell is a unit that is not in the desired state, with its state.
type Unwell struct{ Unit, How string }

// Gate watches the units of one generation that count, after it was applied.
// All times are on one clock, such as the time since boot. It should stand still
// while the machine is suspended, because the units do.
type Gate struct {
	Want generation.Manifest

	// Well and Broken are the result of Before: see Counts.
	Well, Broken []string

	// Answered are the units that answered when the change began. They must
	// answer again: see Asks.
	Answered []string
	// Failed are systemd's errors by unit that it could not start, stop or
	// restart.
	Failed map[string]error

	// Since is when the change was done. It is good when all units that count
	// have been well for Steady without a break, and bad if one of them is not
	// well after Limit, or after what Patience makes of it.
	Since, Steady, Limit time.Duration

	// Hung are the units whose jobs had not ended then, with the time at which
	// they were asked for. The Limit of such a unit begins there.
	Hung map[string]time.Duration

	wellSince time.Duration
	heard     map[string]bool
	restarts  map[string]int
	first     map[string]int
	counts    map[string]bool
}

// askAgain is the pause after which a unit that does not answer is asked again.
const askAgain = time.Second

// Asks returns the units to ask for the next judgement: those that are up, and
// have not answered since they were started.
func (g *Gate) Asks(states []unit.State) []string {
	g.count(states)

	var names []string
	for _, u := range g.Want.Units {
		i := slices.IndexFunc(states, func(s unit.State) bool { return s.Name == u.Name })
		if i < 0 || !g.awaitsAnswer(u) {
			continue
		}
		if well, _ := Well(u, states[i]); well {
			names = append(names, u.Name)
		}
	}

	return names
}

// awaitsAnswer reports whether a unit has yet to answer.
func (g *Gate) awaitsAnswer(u generation.Unit) bool {
	return g.counts[u.Name] && !u.Stopped && !u.OnDemand &&
		slices.Contains(g.Answered, u.Name) && !g.heard[u.Name]
}

// Judge judges the states of the units of Want at time now. answers are the
// results of asking the units of Asks, nil for one that answered.
func (g *Gate) Judge(
	states []unit.State, answers map[string]error, now time.Duration,
) Verdict {
	g.count(states)
	for name, err := range answers {
		if err == nil {
			g.heard[name] = true
		}
	}

	var waits Unwell
	var since, deadline time.Duration
	silent := false
	for _, u := range g.Want.Units {
		i := slices.IndexFunc(states, func(s unit.State) bool { return s.Name == u.Name })
		if i < 0 || !g.counts[u.Name] {
			continue
		}

		s := states[i]
		if n := s.Restarts - g.first[u.Name]; n >= maxRestarts {
			return Verdict{Word: Bad, Unit: u.Name, Reason: doesNotStayUp(u.Name, n)}
		}

		well, how := Well(u, s)
		if !well {
			delete(g.heard, u.Name)
		}

		switch {
		case well && !g.awaitsAnswer(u):
			continue
		case well:
			silent = true
			how = doesNotAnswer(u.Name, answers[u.Name])
		case s.Active == "failed" && !s.Job:
			return Verdict{Word: Bad, Unit: u.Name, Reason: how}
		case g.Failed[u.Name] != nil && !s.Job:
			return Verdict{Word: Bad, Unit: u.Name, Reason: g.Failed[u.Name].Error()}
		}

		until := g.since(u.Name) + Patience(g.Limit, s)
		if waits.Unit == "" || until < deadline {
			waits = Unwell{u.Name, how}
			since, deadline = g.since(u.Name), until
		}
	}

	switch {
	case waits.Unit != "" && now >= deadline:
		return Verdict{
			Word:   Bad,
			Unit:   waits.Unit,
			Reason: fmt.Sprintf("%s after %s", waits.How, (now - since).Round(time.Second)),
		}
	case waits.Unit != "":
		g.wellSince = 0
		next := deadline
		if silent {
			next = min(next, now+askAgain)
		}

		return Verdict{
			Word:     Wait,
			Unit:     waits.Unit,
			Reason:   waits.How,
			Deadline: deadline,
			Next:     next,
		}
	case g.wellSince == 0:
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

// since returns when the time of a unit to come up begins.
func (g *Gate) since(name string) time.Duration {
	if asked, hung := g.Hung[name]; hung {
		return asked
	}
	return g.Since
}

// unwell returns the unhealthy units that do not count, without the ones that
// are starting.
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

// inWords describes the state of units; "" without any.
func inWords(units []Unwell) string {
	var how []string
	for _, u := range units {
		how = append(how, u.How)
	}
	return strings.Join(how, "; ")
}

// doesNotAnswer describes a unit that is up; err is nil if it was not asked.
func doesNotAnswer(name string, err error) string {
	if err == nil {
		return fmt.Sprintf("unit %s has not answered yet", name)
	}
	return fmt.Sprintf("unit %s does not answer (%s)", name, err)
}

func doesNotStayUp(name string, restarts int) string {
	often := "once"
	if restarts > 1 {
		often = fmt.Sprintf("%d times", restarts)
	}
	return fmt.Sprintf("unit %s does not stay up: systemd has restarted it %s", name, often)
}

// count records how often systemd has restarted each service. One that was
// restarted since the last call has yet to answer, and if it counts, the units
// have not been well without a break.
func (g *Gate) count(states []unit.State) {
	if g.first == nil {
		g.first = map[string]int{}
		g.restarts = map[string]int{}
		g.counts = map[string]bool{}
		g.heard = map[string]bool{}

		for _, s := range states {
			g.first[s.Name] = s.Restarts
			g.restarts[s.Name] = s.Restarts
		}

		for _, u := range g.Want.Units {
			g.counts[u.Name] = Counts(u, g.Well, g.Broken)
		}
	}

	for _, s := range states {
		if g.restarts[s.Name] == s.Restarts {
			continue
		}
		g.restarts[s.Name] = s.Restarts
		delete(g.heard, s.Name)
		if g.counts[s.Name] {
			g.wellSince = 0
		}
	}
}
