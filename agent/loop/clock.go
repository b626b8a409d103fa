package loop

import (
	"reflect"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/status"
)

// clockObserved takes in why the clock may be wrong, nil if nothing says so, and
// publishes it.
func clockObserved(s State, doubt *status.WrongClock) (State, []Effect) {
	before := s.Facts.Clock
	if reflect.DeepEqual(before, doubt) {
		return s, nil
	}

	s.Facts.Clock = doubt
	if before == nil {
		return s, []Effect{warning("clock", zap.String("problem", doubt.Problem)), Show{}}
	}
	return s, []Effect{Show{}}
}
