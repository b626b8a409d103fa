package config_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/loam-os/loam/agent/config"
	"github.com/loam-os/loam/test/power"
)

// crashAgain crashes a second time while the node recovers from a first crash:
// in what /init does, or in what the agent does when it starts.
func (o *oracle) crashAgain(t *testing.T, s scenario) (count int) {
	firsts, seconds := 2, 5
	if thorough() {
		firsts, seconds = 8, 12
	}

	r := s.record(t, o.image)
	for _, p := range r.points(r.choose(firsts, 2, crashSeed())) {
		played, err := r.tryAgain(o, p, seconds)
		count += played
		if err != nil {
			t.Errorf("LOAM_CRASH_SEED=%d: %v", crashSeed(), err)
		}
	}
	return count
}

// tryAgain plays a point with second crashes, at most limit of them, and
// returns how many it played.
func (r playback) tryAgain(o *oracle, p point, limit int) (int, error) {
	again, err := r.recordRecovery(p)
	if err != nil {
		return 0, err
	}
	seconds := again.points(again.choose(limit, 2, crashSeed()^uint64(p.k)))
	for i, second := range seconds {
		if err := again.tryFrom(o, r, p, second); err != nil {
			return i + 1, fmt.Errorf("%s, cut before op %d (%s), %s; again %w",
				r.name, p.k, r.Ops[p.k].Step, p.crash, err)
		}
	}
	return len(seconds), nil
}

// recordRecovery records what follows a crash.
func (r playback) recordRecovery(p point) (playback, error) {
	var recorder *power.Recorder
	n, end, err := r.restart(
		p.crash,
		p.disk,
		p.units,
		r.boots,
		func(n *crashNode) { recorder = n.record(p.disk) },
	)
	if end != nil {
		defer end()
	}
	if err == nil {
		_, err = n.executor().Resume(context.Background())
	}
	if err != nil {
		return playback{}, fmt.Errorf("%s, recovery from %s: %w", r.name, p.crash, err)
	}

	recording, err := recorder.Recording()
	return playback{
		scenario:  scenario{name: "in its recovery"},
		Recording: recording,
		image:     r.image,
		boots:     n.boots,
	}, err
}

// tryFrom plays a second crash. A change that two boots have found under way is
// taken back, so after two power cuts what was before it is right as well.
func (r playback) tryFrom(o *oracle, first playback, p, second point) error {
	n, end, err := r.restart(second.crash, second.disk, second.units, r.boots, nil)
	if end != nil {
		defer end()
	}

	allowed := first.allowed(p.k, !p.kill)
	if !second.kill {
		allowed = append(append([]config.Desired{}, first.allowed(p.k, true)...),
			first.hadBefore()...)
	}
	if err == nil {
		err = o.check(n, allowed, first.next)
	}
	if err != nil {
		return fmt.Errorf("before op %d of %d (%s), %s: %w",
			second.k, len(r.Ops), r.Ops[second.k].Step, second.crash, err)
	}
	return nil
}

// hadBefore is the configuration that a scenario begins with.
func (r playback) hadBefore() []config.Desired {
	if len(r.before) == 0 {
		return oneOf(nothing)
	}
	return r.before[len(r.before)-1:]
}
