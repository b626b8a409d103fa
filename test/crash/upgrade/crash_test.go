package upgrade_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/loam-os/loam/test/firmware"
	"github.com/loam-os/loam/test/judge"
)

// crashes are the moments at which the power was cut.
type crashes struct {
	fixture
	t testing.TB

	mu sync.Mutex

	// seen are the sums of moments, ended of those that were gone on from.
	// views is how many looked different to the loader.
	seen, ended  map[uint64]bool
	views, lives int
}

// TestCrashStates cuts the power at every moment of the scenarios, with every
// state that the disk may then have. The machine goes on from there, and the
// power is cut again at every moment of that, until LOAM_CRASH_STATES different
// states were seen. Without the variable, the test takes samples.
func TestCrashStates(t *testing.T) {
	began := time.Now()
	wanted := judge.Pick(10_000, 40_000)
	oneIn := uint64(24)
	if text := os.Getenv("LOAM_CRASH_STATES"); text != "" {
		var err error
		wanted, err = strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
		oneIn = 1
	}

	p, disk := newFixture(t, "1.0.0", "2.0.0", "3.0.0", "4.0.0")
	c := &crashes{
		fixture: p,
		t:       t,
		seen:    map[uint64]bool{},
		ended:   map[uint64]bool{},
	}

	t.Run("lives", func(t *testing.T) {
		for _, name := range slices.Sorted(maps.Keys(scenarios)) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c.live(p.course(t, disk), scenarios[name], oneIn)
			})
		}
		for n := range runtime.NumCPU() {
			t.Run(fmt.Sprint("at random ", n), func(t *testing.T) {
				t.Parallel()
				rng := rand.New(rand.NewPCG(uint64(n), 5))
				for states, _ := c.count(); states < wanted &&
					!c.t.Failed(); states, _ = c.count() {
					c.live(p.course(t, disk), func(c *course) { c.wander(rng) }, 8*oneIn)
				}
			})
		}
	})

	states, ended := c.count()
	if states < wanted {
		t.Errorf("%d states, not %d", states, wanted)
	}

	t.Logf("L1: %d states of the upgrader's writes in %d lives, %d to the loader; "+
		"gone on from %d; in %s",
		states, c.lives, c.views, ended, time.Since(began).Round(time.Second))
}

func (c *crashes) count() (states, ended int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.seen), len(c.ended)
}

func (c *crashes) add(to *int, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*to += n
}

// live cuts a life.
func (c *crashes) live(of *course, live func(c *course), oneIn uint64) {
	live(of)
	c.add(&c.lives, 1)
	c.cut(stretch{beginning(of.base), of.events}, 2000, oneIn)
}

// cut tries all moments of a stretch, and goes on from one in so many of those
// that differ in more than which part of some data is there.
func (c *crashes) cut(s stretch, random int, oneIn uint64) {
	if err := c.within(s.events); err != nil {
		c.t.Error(err)
	}

	s.each(func(e *epoch) {
		firmware.Subsets(e.writes, random, e.base.sum, func(kept firmware.Sectors) {
			if m := e.with(kept); c.first(c.seen, m) {
				if err := e.see(m, func(disk firmware.Disk) error {
					return c.survives(disk, m.files)
				}); err != nil {
					c.t.Errorf("%d sectors of %d kept: %v", len(kept), len(e.writes), err)
				}
			}
		})

		firmware.Coarse(e.writes, func(kept firmware.Sectors) {
			if m := e.with(kept); m.sum%oneIn == 0 && !c.t.Failed() && c.first(c.ended, m) {
				c.goOn(m)
			}
		})
		c.add(&c.views, len(e.views))
	})
}

func (c *crashes) first(of map[uint64]bool, m crashState) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	first := !of[m.sum]
	of[m.sum] = true
	return first
}

// goOn ends a crash state well and badly, and cuts that.
func (c *crashes) goOn(m crashState) {
	for _, good := range []bool{true, false} {
		events, err := c.finishes(c.t, m, good)
		if err != nil {
			c.t.Errorf("good %v: %v", good, err)
		}
		c.cut(stretch{m, events}, 40, 200)
	}
}
