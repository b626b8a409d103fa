package node

import (
	"flag"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestMain has machines.begins, and not Go, let as many tests run as -parallel says.
func TestMain(m *testing.M) {
	flag.Parse()
	atOnce := flag.Lookup("test.parallel")
	free, err := strconv.Atoi(atOnce.Value.String())
	if err != nil {
		panic(err)
	}
	machines = newQueue(free)
	if err := atOnce.Value.Set("1000"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// machines are the tests that start machines.
var machines *queue

// parallel is t.Parallel for a test that takes about so long.
func parallel(t *testing.T, about time.Duration) {
	t.Helper()
	machines.begins(t, about)
}

// queue lets some tests run side by side, the longest first. In the order of Go,
// which is none, the longest may begin when all others are done, and a processor
// has nothing to do.
type queue struct {
	mu      sync.Mutex
	changed *sync.Cond
	free    int
	running []string
	// waiting are how long the parallel tests within a test will take. Go lets all
	// of them go on at once, when all have said so.
	waiting map[string][]time.Duration
}

func newQueue(free int) *queue {
	q := &queue{free: free, waiting: map[string][]time.Duration{}}
	q.changed = sync.NewCond(&q.mu)
	return q
}

// begins returns when it is the test's turn, which lasts until it ends, with all
// tests within it. The test's attribute waited says how long that took.
func (q *queue) begins(t *testing.T, about time.Duration) {
	t.Helper()
	parent := ""
	if i := strings.LastIndex(t.Name(), "/"); i >= 0 {
		parent = t.Name()[:i]
	}

	q.mu.Lock()
	if slices.Contains(q.running, parent) {
		t.Errorf("parallel in %s, which is parallel, too, and would wait for it", parent)
	}
	q.waiting[parent] = append(q.waiting[parent], about)
	q.mu.Unlock()

	t.Parallel()
	start := time.Now()

	q.mu.Lock()
	defer q.mu.Unlock()
	for q.free == 0 || about < slices.Max(q.waiting[parent]) {
		q.changed.Wait()
	}
	i := slices.Index(q.waiting[parent], about)
	q.waiting[parent] = slices.Delete(q.waiting[parent], i, i+1)
	q.free--
	q.running = append(q.running, t.Name())
	q.changed.Broadcast()

	t.Attr("waited", time.Since(start).String())
	t.Cleanup(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.free++
		i := slices.Index(q.running, t.Name())
		q.running = slices.Delete(q.running, i, i+1)
		q.changed.Broadcast()
	})
}

func TestTheLongestBeginsFirst(t *testing.T) {
	const minutes = "21534"
	q := newQueue(1)
	var mu sync.Mutex
	var began strings.Builder
	t.Run("all", func(t *testing.T) {
		for _, about := range minutes {
			t.Run(string(about), func(t *testing.T) {
				q.begins(t, time.Duration(about-'0')*time.Minute)
				mu.Lock()
				defer mu.Unlock()
				began.WriteRune(about)
			})
		}
	})
	if began.String() != "54321" {
		t.Errorf("of tests of %q minutes began %q", minutes, began.String())
	}
}
