package loop

import (
	"slices"

	"github.com/loam-os/loam/agent/generation"
)

// watchedPaths returns the paths to watch for the current generation.
func (c Current) watchedPaths() []string {
	return slices.Concat(generation.Paths(c.Generation), generation.Ways(c.Generation))
}

// watched takes in that the paths of the current generation are watched, or why
// not all of them are. The loop then looks once at those that something may have
// touched before.
func watched(s State, err error) (State, []Effect) {
	before := s.Drift.Watched
	s.Drift.Watched = s.Current.Generation
	s = s.guard(before, err == nil)
	if err != nil {
		return s, []Effect{Warn{What: "watch managed paths", Err: err}}
	}
	return s, nil
}

// guard returns the state after the current generation has replaced another.
// watched says that all its paths are watched now. The paths that were watched
// before need no look.
func (s State) guard(before generation.Manifest, watched bool) State {
	paths := generation.Paths(s.Current.Generation)
	if watched && s.Drift.Guarded {
		paths = generation.Changed(before, s.Current.Generation)
	}
	s.Drift.Guarded = watched && !s.Drift.Blind
	return s.touch(paths)
}

// touched takes in that something has touched paths. lacks is why not all managed
// paths are watched any more: until they are again, each change looks at all of
// them.
func touched(s State, paths []string, lacks error) (State, []Effect) {
	s = s.touch(paths)
	var effects []Effect
	if len(s.Facts.Limits) > 0 {
		effects = append(effects, SetAlarm{Which: aliveAlarm})
	}
	if lacks == nil || !s.Drift.Guarded {
		return s, effects
	}

	s.Drift.Guarded = false
	effects = append(effects, Warn{What: "watch managed paths", Err: lacks})
	return s, append(effects, observeIn(quietPeriod)...)
}

// unwatched takes in that the watch of managed paths has ended: each change looks
// at all paths from now on, and so does the loop once, as the last change relied
// on the watch.
func unwatched(s State) (State, []Effect) {
	s.Drift.Guarded = false
	s.Drift.Blind = true
	s = s.touch(generation.Paths(s.Current.Generation))
	return s, []Effect{Warn{What: "watch managed paths", Err: errNoEvents}}
}
