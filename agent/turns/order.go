package turns

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math"
	"time"
)

const (
	// few may always ask for a turn: of more that write at once, most write in vain.
	few = 32

	// patience is after how long a turn that nobody takes lets more nodes ask, each time
	// widen times as many.
	patience = 10 * time.Second
	widen    = 4

	// prior is the part of a large pool, as 1/prior, that counts as ranks before the first
	// of which all took a turn: little is concluded from few ranks. A node whose writes
	// others precede looks like one that does not change. Without the prior, the more
	// nodes write in vain, the more ask.
	prior = 16

	// writing is how long a node takes for its turn, roughly, before the next one can.
	writing = 50 * time.Millisecond

	// thinnest is the least share of the nodes of a pool that are taken to change.
	thinnest = 1.0 / 16

	// slowest is how many times as long as its class says a change is taken to last at
	// most, where turns were taken more slowly so far.
	slowest = 2
)

// pace is how long a change of a class takes, roughly, and poll how often the
// next nodes of a large pool look at the ledger. They only spread requests.
var (
	pace = map[Class]time.Duration{
		Kubelet: 15 * time.Second,
		Pods:    4 * time.Minute,
		Reboot:  100 * time.Second,
	}
	poll = map[Class]time.Duration{
		Kubelet: 5 * time.Second,
		Pods:    30 * time.Second,
		Reboot:  15 * time.Second,
	}
)

// position returns where a node is in the order of the pool, from 0 to 1. Each
// target has another order. Canaries are first, and those whose change was
// postponed last.
func position(me Me) float64 {
	switch {
	case me.Postponed:
		return 1
	case me.Canary:
		return 0
	}
	sum := sha256.Sum256([]byte(me.Pool + "\x00" + me.Target + "\x00" + me.Machine))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// inOrder lets the nodes ask in their order, so that few write at once, also where many
// turns are free. It limits nothing: the longer a turn is free, the more nodes may take
// it. A postponed node asks once all others have had their turn, or do not ask. begun are
// those that change now, free the turns that nobody has.
func inOrder(r Rollout, me Me, size, begun, free int, now time.Time) Decision {
	taken := r.had(size) + begun
	if me.Postponed && taken+1 < size && me.Unchanged < longestRest {
		return wait(now.Add(pause(me, size)), "postponed: the other nodes come first")
	}

	// Of the ranks that come first, as many take a turn as of those before.
	front := r.front(size, begun)
	known := max(few, size/prior)
	share := max(float64(taken+known)/float64(front+known), thinnest)
	first := share * (position(me)*float64(size) - float64(front))
	ahead := float64(few)
	for waited := patience; waited <= me.Unchanged && first >= ahead; waited += patience {
		ahead *= widen
	}
	if first < ahead {
		return Decision{Verdict: Take}
	}

	rest := time.Duration(first * float64(writing))
	if first >= float64(free) {
		each := r.pace(me.Class, taken, free+begun, now)
		rest = max(time.Duration(first*float64(each)/2), pause(me, size))
	}
	return wait(now.Add(min(rest, longestRest)), fmt.Sprintf("about %.0f nodes come first", first))
}

// pace returns the time from one turn to the next, by the class of the change, of which as
// many as turns may go on at once. If they took longer so far, so may the next ones; or
// the rollout stood still.
func (r Rollout) pace(class Class, taken, turns int, now time.Time) time.Duration {
	each := pace[class] / time.Duration(max(1, turns))
	if taken == 0 {
		return each
	}
	soFar := now.Sub(r.Begun) / time.Duration(taken)
	return min(max(each, soFar), slowest*each)
}

// front returns how far the nodes are in their order. That as many ranks are behind as
// turns were taken is so on average only, and not where nodes run the target already, as
// most do when a change of some is taken back.
func (r Rollout) front(size, begun int) int {
	return max(r.had(size)+begun, min(r.Reached, size))
}

// reachedBy returns [Rollout.Reached] once me has taken a turn. Where many ask, those that
// succeed would move it on together, further than the others are; and those that come late
// say nothing about it: so it moves back a little, too. In a large pool it stays beyond the
// turns taken, if it was there. Fewer nodes than those may be of the ranks behind, by two
// standard deviations the root of the size, and the next ones would be too far ahead to ask.
func reachedBy(r Rollout, me Me, size, begun int) int {
	if size <= few || me.Postponed || me.Canary {
		return r.Reached
	}
	front := r.front(size, begun)
	beyond := max(0, int(math.Sqrt(float64(size)))-few)
	least := min(front, r.had(size)+begun+beyond)
	return max(int(position(me)*float64(size)), front-few/2, least)
}
