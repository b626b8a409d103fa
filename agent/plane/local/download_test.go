package local

import (
	"errors"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/source"
)

// TestAFailureCountsUntilTheNextFetchGetsFurther: a repository that is away is asked
// each minute, and the status says all the time that it is away.
func TestAFailureCountsUntilTheNextFetchGetsFurther(t *testing.T) {
	const size = 400_000_000
	for _, row := range []struct {
		name         string
		before, next int64
		fails        bool
	}{
		{"a repository that does not answer", -1, -1, true},
		{"a repository that answers", -1, 0, false},
		{"a part that is damaged", 200_000_000, 200_000_000, true},
		{"a part that was repaired", 200_000_000, 250_000_000, false},
	} {
		failed := errors.New("failed")
		var d *download
		for _, done := range []int64{row.before, row.next} {
			last := d
			if last == nil {
				last = &download{}
			}
			d = last.next("1.37.3")
			if done >= 0 {
				d.advance(0, size)
				d.advance(done, size)
			}
			if last.err == nil {
				d.end(failed, time.Hour)
			}
		}
		problem := d.problem()
		if errors.Is(problem, failed) != row.fails ||
			errors.Is(problem, source.ErrFetching) == row.fails {
			t.Errorf("%s: %v", row.name, problem)
		}
	}
}
