package upgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// State is the health of one part of a node.
type State string

const (
	// Well says that the part works.
	Well State = "well"
	// Ill says that it does not work.
	Ill State = "ill"
	// Unclear says that it cannot be told, because the judge cannot be reached.
	Unclear State = "unclear"
)

// Health is the state of the parts of a node, by name: "unit kubelet.service",
// "node ready", "gateway".
type Health map[string]Check

// Check is the state of one part.
type Check struct {
	State State `json:"state"`
	// Detail says what was observed, for an operator.
	Detail string `json:"detail,omitempty"`
	// Life changes each time that the part starts again; "" if it is not
	// something that starts.
	Life string `json:"-"`
}

// Word is the outcome of a judgement.
type Word string

const (
	// Wait is no verdict yet.
	Wait Word = ""
	Good Word = "good"
	Bad  Word = "bad"
)

// Verdict is the judgement on a trial at one time.
type Verdict struct {
	Word   Word
	Reason string
}

const (
	// trialSteady is how long nothing may be worse than before until the trial
	// is good. illSteady is how long something has to be worse, after the time
	// limit, until the trial is bad: a server that comes back reports an old
	// state at first.
	trialSteady = 30 * time.Second
	illSteady   = time.Minute
	// restartLoop is in how many polls in a row a part may have started again.
	restartLoop = 3
)

// Trial judges a system that was booted to be tried.
type Trial struct {
	// Baseline is the health before the restart; without it, everything has to
	// be well.
	Baseline Health

	// Limit is how long after kernel start the system may take to be as well as
	// the baseline.
	Limit time.Duration

	// Drill makes the trial fail, however the node is.
	Drill bool

	// since is when the node became well, or ill.
	since         time.Duration
	isWell, isIll bool
	lives         map[string]life
}

// life counts in how many polls in a row a part had started again.
type life struct {
	id  string
	new int
}

// Judge takes the health at that uptime, nil if it could not be observed. Only
// what was well before counts against the new system. What cannot be told is no
// verdict: a server that is away says nothing about this node.
func (t *Trial) Judge(now Health, uptime time.Duration) Verdict {
	if t.Drill {
		now = inDrill
	}

	if now == nil {
		return Verdict{Reason: "the agent is busy"}
	}

	worse, unclear := compare(t.Baseline, t.withRestarts(now))
	well := len(worse)+len(unclear) == 0
	ill := len(worse) > 0 && len(unclear) == 0
	if (well && !t.isWell) || (ill && !t.isIll) {
		t.since = uptime
	}

	t.isWell = well
	t.isIll = ill

	switch {
	case ill && uptime >= t.Limit && uptime-t.since >= illSteady:
		return Verdict{Word: Bad, Reason: strings.Join(worse, "; ")}
	case len(worse) > 0:
		return Verdict{Reason: strings.Join(worse, "; ")}
	case len(unclear) > 0:
		return Verdict{Reason: strings.Join(unclear, "; ")}
	case uptime-t.since >= trialSteady:
		return Verdict{Word: Good, Reason: "nothing is worse than before"}
	}

	return Verdict{Reason: "all is as well as before"}
}

// withRestarts returns now, with parts that start again all the time as ill.
func (t *Trial) withRestarts(now Health) Health {
	next := map[string]life{}
	seen := maps.Clone(now)
	for name, c := range now {
		if c.Life == "" {
			continue
		}

		l, known := t.lives[name]
		l.new++
		if l.id == c.Life || !known {
			l.new = 0
		}

		l.id = c.Life
		next[name] = l

		if l.new >= restartLoop {
			seen[name] = Check{State: Ill, Detail: "it does not stay up"}
		}
	}

	t.lives = next
	return seen
}

// compare returns what is worse than before, and what cannot be told.
func compare(before, now Health) (worse, unclear []string) {
	for _, name := range slices.Sorted(maps.Keys(merged(before, now))) {
		was := before[name].State
		is := now[name].State
		switch {
		case was != Well && was != "": // It was not well before, or that could not be told.
		case (was == "" || (is == "" && ofConfiguration(name))) && len(before) > 0:
			// A new configuration has its own verdict.
		case is == Unclear:
			unclear = append(unclear, describe(name, now[name], "cannot be told"))
		case is != Well:
			worse = append(worse, describe(name, now[name], "is not there"))
		}
	}
	return worse, unclear
}

// ofConfiguration reports whether a check comes and goes with the
// configuration.
func ofConfiguration(name string) bool {
	return strings.HasPrefix(name, UnitCheck) || strings.HasPrefix(name, AnswerCheck)
}

// UnitCheck and AnswerCheck are the prefixes of the names of unit checks.
const (
	UnitCheck   = "unit "
	AnswerCheck = "answer of "
)

func describe(name string, c Check, without string) string {
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

const (
	// baselinePolls is how often the health is polled for a baseline while a
	// part is not well, baselinePause the time between two polls.
	baselinePolls = 6
	baselinePause = 5 * time.Second
)

// errBusy says that the health could not be observed.
var errBusy = errors.New("the agent is too busy to tell how the node is")

// baseline returns the best health within half a minute. The next system need
// not be better.
func baseline(ctx context.Context, look func(ctx context.Context) Health) (Health, error) {
	best := Health{}
	seen := false
	for i := range baselinePolls {
		now := look(ctx)
		seen = seen || now != nil

		all := now != nil
		for name, c := range now {
			if best[name].State != Well {
				best[name] = c
			}
			all = all && best[name].State == Well
		}
		if all || i == baselinePolls-1 {
			break
		}

		select {
		case <-time.After(baselinePause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}

	if !seen {
		return nil, errBusy
	}

	return best, nil
}
