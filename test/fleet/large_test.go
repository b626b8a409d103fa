package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
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

// delay is how long a request of a large fleet takes at most: of the writes of 1,000 nodes,
// about as many are refused then as at a real API server on the same machine.
const delay = 40 * time.Millisecond

// TestALargeFleet measures a rollout of which 5 % of the nodes may be away. LOAM_FLEET
// is how many nodes it has; with it, another system follows the configuration, and
// then a configuration that fails on every node. make bench sets it, and
// LOAM_FLEET_CURVES to a file for the curves.
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
			Fails:   func(_, text string) bool { return text == "bad" },
			Delay:   delay,
		}, Configuration("one"))

		m := meter{fleet: f, used: used}
		m.report(t, "start", 0)

		var curves []curve
		stop := f.record("configuration", func() int { return f.checker.running(sum(Configuration("two"))) })
		took := f.Rollout(Configuration("two"), 3*time.Hour)
		curves = append(curves, stop())
		polls, rest := m.report(t, "configuration", took)
		if text == "" {
			// The nodes of a rollout without a pause look more often: 12 to 21 times in 32
			// runs. Without the order of the nodes it is 41 times.
			if took > 10*time.Minute || polls > 30 || (size > 250 && rest > 10) {
				t.Errorf("%d nodes took %s, and %.1f polls and %.1f other requests each, "+
					"want at most 10m, 30 and 10", size, took, polls, rest)
			}
			return
		}

		stop = f.record("system", func() int { return f.running("2b2b") })
		took = f.Upgrade("2.0.0", "2b2b", 12*time.Hour)
		curves = append(curves, stop())
		m.report(t, "system", took)

		stop = f.record("bad", func() int { return f.checker.running(sum(Configuration("bad"))) })
		f.Configure(Configuration("bad"))
		took = f.Await("the halt", time.Hour, func() error {
			if s := f.checker.state(); s.ledger.Halted == "" {
				return errors.New("it goes on")
			}
			return f.settled()
		})
		time.Sleep(30 * time.Minute) // Of the bubble. No node may begin in it.
		curves = append(curves, stop())
		m.report(t, "bad", took)
		write(t, curves)
	})
}

func TestALargePoolStopsForANewCanary(t *testing.T) {
	judge.Long(t, "TestNext of agent/turns, with a list in place of a pool")
	synctest.Test(t, func(t *testing.T) {
		const size = 300 // More than 250: their labels are not in each list.
		const most = 15
		f := New(t, Options{
			Nodes:   size,
			Zones:   3,
			Racks:   5,
			Policy:  `{"maxUnavailable": "5%", "chunks": ["100%"]}`,
			Limits:  Limits{Total: most},
			Restart: 15 * time.Second,
		}, Configuration("one"))
		f.Configure(Configuration("two"))
		f.Await("a part of the rollout", time.Hour, func() error {
			if n := f.checker.state().touched; n < 2*most {
				return fmt.Errorf("%d nodes", n)
			}
			return nil
		})

		isIdle := func(m *member) bool {
			return f.checker.doing(m.name) == "without a turn" && m.text() == "one"
		}
		canary := f.members[slices.IndexFunc(f.members, isIdle)]
		canary.busy.lock()
		canary.stop()
		f.Do(http.MethodPatch, nodesPath+"/"+canary.name,
			`{"metadata": {"labels": {"loam.dev/canary": ""}}}`)
		before := f.checker.state().touched
		f.counts.take()
		time.Sleep(20 * time.Minute) // Of the bubble.

		after := f.checker.state().touched
		if after > before+size/20+most {
			t.Errorf("%d nodes took a turn after there was a canary", after-before)
		}
		// Each node lists the Nodes when it sees the canary, and once in five minutes
		// then: all of them, and those with each of two labels.
		number, _ := f.counts.take()
		if most := size * 5 * 3; number[Lists] > most {
			t.Errorf("%d lists of the Nodes, want at most %d", number[Lists], most)
		}
		t.Logf("%d nodes before the label, %d after it, %d lists",
			before, after-before, number[Lists])

		canary.start()
		canary.busy.unlock()
		f.Await("the rest", time.Hour, func() error { return f.runs(Configuration("two")) })
	})
}

// curve is how a rollout goes on.
type curve struct {
	Name  string `json:"name"`
	Nodes int    `json:"nodes"`
	// Most is how many nodes may be away.
	Most int `json:"most"`
	// Seconds are between two samples. Done are the nodes that have changed, Away
	// those that are disturbed.
	Seconds int   `json:"seconds"`
	Done    []int `json:"done"`
	Away    []int `json:"away"`
}

// record records a rollout of which done is how many nodes have changed, until stop
// is called.
func (f *Fleet) record(name string, done func() int) (stop func() curve) {
	const pause = 15 * time.Second
	c := curve{
		Name:    name,
		Nodes:   f.Options.Nodes,
		Most:    f.Options.Limits.Total,
		Seconds: int(pause / time.Second),
	}
	sample := func() {
		c.Done = append(c.Done, done())
		c.Away = append(c.Away, f.checker.away())
	}

	over := make(chan struct{})
	f.group.Go(func() {
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for {
			sample()
			select {
			case <-tick.C:
			case <-over:
				return
			}
		}
	})
	return func() curve {
		close(over)
		synctest.Wait()
		sample()
		return c
	}
}

func write(t *testing.T, curves []curve) {
	t.Helper()
	file := os.Getenv("LOAM_FLEET_CURVES")
	if file == "" {
		return
	}
	text, err := json.Marshal(curves)
	if err == nil {
		err = os.WriteFile(file, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// meter says what a rollout costs.
type meter struct {
	fleet *Fleet
	used  time.Duration
}

// report logs the costs since the last report, and returns how often each node has read
// the ledger, and how many other requests it has sent, without renewals and watches.
// With LOAM_FLEET, it prints them as a benchmark does.
func (m *meter) report(
	t *testing.T, what string, took time.Duration,
) (polls, rest float64) {
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

	for kind, n := range number {
		switch kind {
		case Polls:
			polls += float64(n) / size
		case Renewals, Watches:
		default:
			rest += float64(n) / size
		}
	}
	if os.Getenv("LOAM_FLEET") != "" {
		fmt.Printf("BenchmarkLargeFleet/%s 1 %.2f min %.2f polls %.2f requests %.2f conflicts "+
			"%d touched\n",
			what, took.Minutes(), polls, rest, float64(number[Conflicts])/size, s.touched)
	}
	return polls, rest
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
