package config_test

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/loam-os/loam/test/judge"
)

// crashSeed is LOAM_CRASH_SEED, or the same for everybody.
func crashSeed() uint64 {
	seed, err := strconv.ParseUint(os.Getenv("LOAM_CRASH_SEED"), 10, 64)
	if err != nil {
		return 1
	}
	return seed
}

// crashPoints is how many points of each scenario a run takes: few, or with
// LOAM_CRASH_POINTS that many, or all of them (0), and more that are random.
func crashPoints() (limit, random int) {
	points := os.Getenv("LOAM_CRASH_POINTS")
	if points == "all" {
		return 0, 2
	}
	limit, err := strconv.Atoi(points)
	if err != nil {
		return judge.Pick(8, 12), 2
	}
	return limit, 8
}

// thorough reports whether a run is more than a sample.
func thorough() bool {
	limit, _ := crashPoints()
	return limit == 0 || limit >= 1000
}

// TestCrash plays every scenario and crashes it at every step, in every way;
// once more while the node recovers; and with steps that fail instead.
func TestCrash(t *testing.T) {
	o := &oracle{t: t, image: crashImage(t), known: map[string]looks{}}
	report := &crashReport{}
	t.Run("once", func(t *testing.T) {
		for _, s := range scenarios() {
			t.Run(
				s.name,
				func(t *testing.T) { t.Parallel(); report.add(s.name, o.crashOnce(t, s)) },
			)
		}
	})

	t.Run("again", func(t *testing.T) {
		for _, s := range scenarios() {
			t.Run(
				s.name,
				func(t *testing.T) {
					t.Parallel()
					report.add(
						"again: "+s.name,
						o.crashAgain(t, s),
					)
				},
			)
		}
	})

	t.Run("fault", func(t *testing.T) {
		for _, f := range failures() {
			t.Run(
				f.name,
				func(t *testing.T) {
					t.Parallel()
					report.add(
						"fault: "+f.name,
						o.crashFault(t, f),
					)
				},
			)
		}
	})

	report.write(t)
}

// crashOnce plays the points of one scenario, and returns how many there are.
func (o *oracle) crashOnce(t *testing.T, s scenario) int {
	r := s.record(t, o.image)
	limit, random := crashPoints()
	points := r.points(r.choose(limit, random, crashSeed()))
	failed := 0
	for _, p := range points {
		if err := r.try(o, p); err != nil {
			t.Errorf("LOAM_CRASH_SEED=%d: %v", crashSeed(), err)
			if failed++; failed == 3 {
				t.Fatal("and so on")
			}
		}
	}
	return len(points)
}

// crashReport counts points by scenario.
type crashReport struct {
	mu    sync.Mutex
	lines []string
	total int
}

func (r *crashReport) add(name string, points int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("%6d  %s\n", points, name))
	r.total += points
}

// write leaves the report where LOAM_CRASH_REPORT says.
func (r *crashReport) write(t *testing.T) {
	t.Helper()
	text := strings.Join(r.lines, "") + fmt.Sprintf("%6d  crash points in all\n", r.total)
	if name := os.Getenv("LOAM_CRASH_REPORT"); name != "" {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Error(err)
		}
	}
	t.Logf("\n%s", text)
}
