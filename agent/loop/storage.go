package loop

import (
	"slices"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/storage"
)

// storageObserved takes in how much room there is on the file systems, and
// publishes it if operators should know. It also publishes a status again that
// could not be written.
func storageObserved(s State, usages []storage.Usage) (State, []Effect) {
	before := s.Facts.Storage
	now := storage.Decide(before, usages)
	s.Facts.Storage = now

	effects := reportStorage(before, now)
	if slices.ContainsFunc(now, func(f status.FileSystem) bool { return f.Full }) {
		effects = append(effects, SetAlarm{Which: aliveAlarm, In: limitInterval})
	}

	changed := !slices.Equal(before, now)
	if s.Published.Any && (changed || s.Published.Unwritten) {
		effects = append(effects, Show{})
	}
	return s, effects
}

// reportStorage reports which file systems have run out of room, and logs which
// have room again.
func reportStorage(before, now []status.FileSystem) []Effect {
	var effects []Effect
	for _, f := range now {
		same := func(b status.FileSystem) bool { return isSameLevel(b, f) }
		if !slices.ContainsFunc(before, same) {
			effects = append(effects,
				warning("little room", zap.String("problem", f.Problem)),
				Event{Reason: "StorageLow", Message: f.Problem})
		}
	}

	for _, b := range before {
		same := func(f status.FileSystem) bool { return b.Path == f.Path }
		if !slices.ContainsFunc(now, same) {
			effects = append(effects,
				info("enough room again", zap.String("path", b.Path)),
				SetAlarm{Which: resumeAlarm}) // What there was no room for.
		}
	}
	return effects
}
