package fleet

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loam-os/loam/test/judge"
)

// recovery is within which virtual time all is well after the last accident. A clock
// that was set back has its node wait for up to an hour.
const recovery = 4 * time.Hour

// seeds returns the seeds to run: LOAM_SEED is one, LOAM_SEEDS is another number of
// them.
func seeds(t *testing.T) []uint64 {
	t.Helper()
	number := judge.Pick[uint64](4, 100)
	for name, to := range map[string]*uint64{"LOAM_SEEDS": &number, "LOAM_SEED": nil} {
		text := os.Getenv(name)
		if text == "" {
			continue
		}
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n == 0 {
			t.Fatalf("%s=%s: want a number above 0", name, text)
		}
		if to == nil {
			return []uint64{n}
		}
		*to = n
	}

	var all []uint64
	for seed := range number {
		all = append(all, seed+1)
	}
	return all
}

// TestFleetsWithFaults has small fleets go through rollouts while accidents happen,
// which a seed draws. LOAM_SEED repeats one: the same accidents at the same times,
// but goroutines that run at the same virtual time have no order.
func TestFleetsWithFaults(t *testing.T) {
	seen := sightings{}
	longest := time.Duration(0)
	for _, seed := range seeds(t) {
		t.Run(fmt.Sprint("LOAM_SEED=", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCourse(t, seed)
				c.plan()
				c.run()
				c.heal()
				took := c.Await("the end after the last accident", recovery, c.arrives)
				longest = max(longest, took)
				for what, n := range c.seen {
					seen[what] += n
				}
			})
		})
	}

	t.Logf("the longest recovery took %s", longest)
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%6d %s", seen[what], what)
	}
}
