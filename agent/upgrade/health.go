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

// Health is how the parts of a node are, by their names: "unit
// kubelet.service", "node ready", "gateway".
type Health map[string]Check

// Check is one of them.
type Check struct {
	State State `json:"state"`
	// Detail says what was seen, for a person.
	Detail string `json:"detail,omitempty"`
	// Life is another each time that it begins anew; "" for what does not.
	Life string `json:"-"`
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
}

const (
	// trialSteady is how long nothing may be worse than before for the trial to
	// be good, illSteady how long something has to be, after its time is over,
	// for it to be bad: a server that comes back tells old news at first.
	trialSteady = 30 * time.Second
	illSteady   = time.Minute
	// loops is at how many looks in a row something may have begun anew.
	loops = 3
)

// Trial watches a system that was booted to be tried.
type Trial struct {
	// Baseline is how the node was before; without one, all has to be well.
	Baseline Health

	// Limit is how long after the start of the kernel the system may take to be
	// as well as that.
	Limit time.Duration

	// Drill fails it, however the node is.
	Drill bool

	// since is when what is seen now began: well, or ill.
	since         time.Duration
	isWell, isIll bool
	lives         map[string]life
}

// life is how something lives on: at how many looks in a row it had begun anew.
type life struct {
	id  string
	new int
}

// Judge takes in how the node is at uptime; nil is a look that failed. Only
// what was well before counts against the new system, and what cannot be told
// now is no verdict: a server that is away says nothing about this node.
func (t *Trial) Judge(now Health, uptime time.Duration) Verdict {
	if t.Drill {
		now = inDrill
	}

	if now == nil {
		return Verdict{Reason: "the agent is busy"}
	}

	worse, unclear := compare(t.Baseline, t.alive(now))
	well := len(worse)+len(unclear) == 0
	ill := len(worse) > 0 && len(unclear) == 0
	if well && !t.isWell || ill && !t.isIll {
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

// alive is now, in which what begins anew all the time is ill.
func (t *Trial) alive(now Health) Health {
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

		if l.new >= loops {
			seen[name] = Check{State: Ill, Detail: "it does not stay up"}
		}
	}

	t.lives = next
	return seen
}

// compare says what is worse than before, and what cannot be told.
func compare(before, now Health) (worse, unclear []string) {
	for _, name := range slices.Sorted(maps.Keys(merged(before, now))) {
		was := before[name].State
		is := now[name].State
		switch {
		case was != Well && was != "": // It was ill, or nobody could tell.
		case (was == "" || is == "" && ofConfiguration(name)) && len(before) > 0:
			// A new configuration has its own verdict.
		case is == Unclear:
			unclear = append(unclear, said(name, now[name], "cannot be told"))
		case is != Well:
			worse = append(worse, said(name, now[name], "is not there"))
		}
	}
	return worse, unclear
}

// ofConfiguration reports whether a check comes and goes with the
// configuration.
func ofConfiguration(name string) bool {
	return strings.HasPrefix(name, UnitCheck) || strings.HasPrefix(name, AnswerCheck)
}

// UnitCheck and AnswerCheck begin the names of checks of units.
const (
	UnitCheck   = "unit "
	AnswerCheck = "answer of "
)

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

const (
	// baselineLooks is how often the node is looked at for a baseline while
	// something of it is not well, baselinePause the time between.
	baselineLooks = 6
	baselinePause = 5 * time.Second
)

// errBusy says that nobody could tell how the node is.
var errBusy = errors.New("the agent is too busy to tell how the node is")

// baseline is how the node is at its best within half a minute: what is not
// well then, the next system need not make well.
func baseline(ctx context.Context, look func(ctx context.Context) Health) (Health, error) {
	best := Health{}
	seen := false
	for i := range baselineLooks {
		now := look(ctx)
		seen = seen || now != nil

		all := now != nil
		for name, c := range now {
			if best[name].State != Well {
				best[name] = c
			}
			all = all && best[name].State == Well
		}
		if all || i == baselineLooks-1 {
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
