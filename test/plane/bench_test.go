package plane

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/pki"
)

// BenchmarkControlPlane measures the time from the start of etcd and the API
// server, with their certificates issued before, to the API server's /readyz:
// on an empty disk, and again after a power cut. Then it measures a renewal, and a
// cluster in which nothing happens.
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

	b.Run("renewal", benchmarkRenewal)
	b.Run("idle", benchmarkIdle)
}

// benchmarkRenewal measures how long nothing can be written while all certificates are
// renewed, a year later each time. That restarts etcd, and nothing else.
func benchmarkRenewal(b *testing.B) {
	m := newCluster(b)
	m.boot(b)
	leaves := pki.Leaves(m.record.Names(m.node.Name))
	var gaps []time.Duration
	for b.Loop() {
		gaps = append(gaps, m.longestGap(b, func() {
			m.ahead += 365 * 24 * time.Hour
			times := pki.Times{Built: built, Now: m.now()}
			renewed, err := m.store.Renew(leaves, m.record.Encrypted(), times)
			if err != nil || len(renewed) == 0 {
				b.Fatalf("renewed %v: %v", renewed, err)
			}

			etcd := m.running["etcd.service"]
			if err := etcd.cmd.Process.Signal(etcd.signal); err != nil {
				b.Fatal(err)
			}
			<-etcd.exited
			m.start(b, plane.Render(m.record, m.node), "etcd.service")
		}))
	}
	report(b, gaps)
}

// longestGap returns the longest time between two writes, of which one follows the
// other, while f runs.
func (m *machine) longestGap(b *testing.B, f func()) time.Duration {
	b.Helper()
	const patience = 250 * time.Millisecond
	m.await(b, "a write", func(ctx context.Context) error { return m.put(ctx, 0) })
	stop, longest := make(chan struct{}), make(chan time.Duration)
	go func() {
		var most time.Duration
		defer func() { longest <- most }()
		last := time.Now()
		for i := 1; b.Context().Err() == nil; i++ {
			ctx, cancel := context.WithTimeout(b.Context(), patience)
			err := m.put(ctx, i)
			cancel()
			if err != nil {
				continue
			}

			most = max(most, time.Since(last))
			last = time.Now()
			select {
			case <-stop:
				return
			default:
			}
		}
	}()

	f()
	close(stop)
	return <-longest
}

// put writes a ConfigMap.
func (m *machine) put(ctx context.Context, value int) error {
	const maps = "/api/v1/namespaces/default/configmaps"
	body := fmt.Sprintf(`{"metadata": {"name": "clock"}, "data": {"value": "%d"}}`, value)
	_, err := m.do(ctx, http.MethodPut, maps+"/clock", body)
	if err != nil && value == 0 {
		_, err = m.do(ctx, http.MethodPost, maps, body)
	}
	return err
}

// benchmarkIdle measures what etcd writes to the disk, in rounds of a minute, in a
// cluster of one node in which nothing happens: the kubelet renews its Lease. etcd is no
// longer on trial.
func benchmarkIdle(b *testing.B) {
	const renewal = 10 * time.Second // nodeLeaseDurationSeconds is 40, renewed at a quarter.
	m := newCluster(b)
	m.boot(b)
	m.prove(b)
	m.stop(b)
	m.boot(b)
	m.startControllers(b)
	m.addNode(b)
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	lease := func() string {
		now := time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")
		return fmt.Sprintf(`{"metadata": {"name": "hello"}, "spec": {"holderIdentity": "hello",
			"leaseDurationSeconds": 40, "renewTime": %q}}`, now)
	}
	m.must(b, http.MethodPost, leases, lease())

	minute := func() float64 {
		before := m.written(b, "etcd.service")
		for range time.Minute / renewal {
			m.must(b, http.MethodPatch, leases+"/hello", lease())
			time.Sleep(renewal)
		}
		return float64(m.written(b, "etcd.service")-before) / 1e6
	}
	minute() // The controllers begin.

	var all []float64
	for b.Loop() {
		all = append(all, minute())
	}
	slices.Sort(all)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(all[len(all)/2], "written-MB")
}

// written returns how many bytes a program has written to a disk (proc_pid_io(5)).
func (m *machine) written(b *testing.B, unit string) int64 {
	b.Helper()
	place := filepath.Join("/proc", strconv.Itoa(m.running[unit].cmd.Process.Pid), "io")
	text, err := os.ReadFile(place)
	if err != nil {
		b.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\nwrite_bytes: ")
	line, _, _ := strings.Cut(after, "\n")
	n, err := strconv.ParseInt(line, 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return n
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
