package fleet

import (
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/test/judge"
)

// TestALargeFleet measures a rollout of which 5 % of the nodes may be away. LOAM_FLEET
// is how many nodes it has; with it, another system follows the configuration.
func TestALargeFleet(t *testing.T) {
	size := judge.Pick(200, 500)
	text := os.Getenv("LOAM_FLEET")
	if text != "" {
		var err error
		size, err = strconv.Atoi(text)
		if err != nil {
			t.Fatal(err)
		}
	}

	synctest.Test(t, func(t *testing.T) {
		most := max(1, size/20)
		used := cpu(t)
		f := New(t, Options{
			Nodes:   size,
			Zones:   3,
			Racks:   max(1, size/60),
			Policy:  `{"maxUnavailable": "5%"}`,
			Limits:  Limits{Total: most},
			Restart: 15 * time.Second,
			Reboot:  100 * time.Second,
		}, Configuration("one"))

		m := meter{fleet: f, used: used}
		m.report(t, "start", 0)
		took := f.Rollout(Configuration("two"), 3*time.Hour)
		number := m.report(t, "configuration", took)
		if polls := number[Polls] / size; took > 10*time.Minute || polls > 20 {
			t.Errorf("%d nodes took %s and %d polls each, want at most 10m and 20", size, took, polls)
		}
		if text != "" {
			m.report(t, "system", f.Upgrade("2.0.0", "2b2b", 12*time.Hour))
		}
	})
}

// meter says what a rollout costs.
type meter struct {
	fleet *Fleet
	used  time.Duration
}

// report logs the costs since the last report, and returns the requests.
func (m *meter) report(t *testing.T, what string, took time.Duration) map[string]int {
	t.Helper()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	used := cpu(t) - m.used
	m.used += used

	number, bytes := m.fleet.counts.take()
	s := m.fleet.checker.state()
	m.fleet.checker.forget()
	size := float64(m.fleet.Options.Nodes)
	t.Logf("%s: %s, %d nodes disturbed, at most %d at once; %.0f MB, %s of a processor",
		what, took, s.touched, s.most, float64(memory.HeapInuse+memory.StackInuse)/1e6, used)
	for _, kind := range slices.Sorted(maps.Keys(number)) {
		t.Logf("%6.2f %s a node, with %.1f kB each", float64(number[kind])/size, kind,
			float64(bytes[kind])/1000/float64(number[kind]))
	}
	return number
}

// cpu returns the time that the process has used of processors.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		t.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
