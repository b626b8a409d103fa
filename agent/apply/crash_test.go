package apply_test

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/loam-os/loam/agent/durable"
)

var errPower = errors.New("power cut")

// cutAt is a hook that ends the operation at durable step number n, from 0.
func cutAt(n int) durable.Hook {
	return func(durable.Step) error {
		n--
		if n < 0 {
			return errPower
		}
		return nil
	}
}

// crashSeed is LOAM_CRASH_SEED, or the same for everybody.
func crashSeed() uint64 {
	seed, err := strconv.ParseUint(os.Getenv("LOAM_CRASH_SEED"), 10, 64)
	if err != nil {
		return 1
	}
	return seed
}

// crashPoints is how many points of each scenario a run takes: few, or with
// LOAM_CRASH_POINTS that many, or all of them, and more that are random.
func crashPoints() (limit, random int) {
	points := os.Getenv("LOAM_CRASH_POINTS")
	if points == "all" {
		return 0, 8
	}
	limit, err := strconv.Atoi(points)
	if err != nil {
		return 25, 2
	}
	return limit, 8
}

// TestCrash plays every scenario and crashes it at every step, in every way.
func TestCrash(t *testing.T) {
	image := crashImage(t)
	o := &oracle{t: t, known: map[string]looks{}}
	limit, random := crashPoints()
	report := &crashReport{}
	t.Run("scenario", func(t *testing.T) {
		for _, s := range scenarios() {
			t.Run(s.name, func(t *testing.T) {
				t.Parallel()
				r := s.record(t, image)
				points := r.points(limit, random, crashSeed())
				report.add(s.name, len(points))
				failed := 0
				for _, p := range points {
					if err := r.try(o, p); err != nil {
						t.Errorf("LOAM_CRASH_SEED=%d: %v", crashSeed(), err)
						if failed++; failed == 3 {
							t.Fatal("and so on")
						}
					}
				}
			})
		}
	})
	report.write(t)
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
