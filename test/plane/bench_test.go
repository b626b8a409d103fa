package plane

import (
	"slices"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/plane/pki"
)

// BenchmarkControlPlane measures the time from the start of etcd and the API
// server, with their certificates issued before, to the API server's /readyz:
// on an empty disk, and again after a power cut.
func BenchmarkControlPlane(b *testing.B) {
	b.Run("empty-disk", func(b *testing.B) {
		var times []time.Duration
		for b.Loop() {
			m := newCluster(b)
			times = append(times, timed(func() { m.boot(b) }))
			m.stop(b)
		}
		report(b, times)
	})

	b.Run("again", func(b *testing.B) {
		m := newCluster(b)
		m.boot(b)
		var times []time.Duration
		for b.Loop() {
			m.stop(b)
			times = append(times, timed(func() { m.boot(b) }))
		}
		report(b, times)
	})
}

// newCluster returns a machine with the authorities of a cluster.
func newCluster(t testing.TB) *machine {
	t.Helper()
	m := newMachine(t)
	if err := m.store.Create("plant-7", pki.Times{Built: built, Now: m.now()}); err != nil {
		t.Fatal(err)
	}
	return m
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

func report(b *testing.B, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	b.ReportMetric(0, "ns/op") // That is what all of it takes.
	b.ReportMetric(times[len(times)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(times[0].Seconds()*1000, "min-ms")
	b.ReportMetric(times[len(times)-1].Seconds()*1000, "max-ms")
}
