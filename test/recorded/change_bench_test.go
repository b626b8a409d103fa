package recorded

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster"
)

// sizes are the changes that are measured. A Secret has at most 1 MiB, so that
// files are shorter where there are many.
var sizes = []size{
	{
		name:     "small",
		files:    1,
		units:    1,
		changed:  1,
		bytes:    2048,
		together: 1,
	},
	{
		name:     "one-of-200",
		files:    200,
		units:    50,
		changed:  1,
		bytes:    2048,
		together: 200,
	},
	{
		name:     "all-200",
		files:    200,
		units:    50,
		changed:  200,
		bytes:    2048,
		together: 200,
	},
	{
		name:     "one-of-2000",
		files:    2000,
		units:    50,
		changed:  1,
		bytes:    200,
		together: 10,
	},
}

// afterChange is how long after the annotation what a change costs is read: the
// agent looks at its units once more, and deletes old generations.
const afterChange = 500 * time.Millisecond

// steadyLong keeps the verdict on a change out of its measurement: as on a
// node, the next change comes first or ten seconds later.
const steadyLong = 10 * time.Second

// BenchmarkChange is a change of the Secret at an agent and a systemd that have
// processes of their own: how long it takes from the answer to the PUT to the
// Node's annotation, and what the agent uses for it.
func BenchmarkChange(b *testing.B) {
	w := newFixture(b, cluster.Options{})
	w.addNode()
	w.put("token", map[string]string{"token": "t"})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	seen := w.annotations(ctx)
	kubelet, containerd := answering(b)

	first := sizes[0].document("first")
	w.put(secretName, map[string]string{"osc.yaml": first})
	dir := nodeDirectory(b)
	w.admit(dir, "machine-1")
	node := child{
		Dir:        dir,
		Config:     w.config(),
		Kubelet:    kubelet,
		Containerd: containerd,
		Socket:     w.startSystemd(dir),
		Steady:     steadyLong,
	}

	pid := w.startChild(node)
	until(b, seen, first)

	medians := map[string]time.Duration{}
	for _, s := range sizes {
		change := func(text string) time.Duration {
			document := s.document(text)
			w.put(secretName, map[string]string{"osc.yaml": document})
			start := time.Now()
			took := until(b, seen, document).Sub(start)
			time.Sleep(afterChange)

			return took
		}

		b.Run(s.name, func(b *testing.B) {
			change(fmt.Sprint("before ", b.N))
			var times []time.Duration
			before := usageOf(b, pid)

			for i := range b.N {
				times = append(times, change(fmt.Sprintf("%d of %d", i, b.N)))
			}

			after := usageOf(b, pid)
			n := float64(b.N)
			b.ReportMetric(float64((after.cpu-before.cpu).Microseconds())/1e3/n, "cpu-ms")
			b.ReportMetric(float64(after.switches-before.switches)/n, "switches")
			b.ReportMetric(float64(after.written-before.written)/1024/n, "written-KiB")
			median(b, times)
			medians[s.name] = times[len(times)/2]

			if few := medians["one-of-200"]; few > 0 {
				b.ReportMetric(float64(medians[s.name])/float64(few), "ratio")
			}
		})

		b.Run(s.name+"-calls", func(b *testing.B) {
			change(fmt.Sprint("traced before ", b.N))
			calls := traced(b, pid, func() {
				for i := range b.N {
					change(fmt.Sprintf("traced %d of %d", i, b.N))
				}
			})
			b.ReportMetric(float64(calls)/float64(b.N), "calls")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkStart is the start of an agent's process to the Node's annotation,
// on an empty node.
func BenchmarkStart(b *testing.B) {
	w := newFixture(b, cluster.Options{})
	w.addNode()
	w.put("token", map[string]string{"token": "t"})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	seen := w.annotations(ctx)
	kubelet, containerd := answering(b)
	whole := b // Nodes outlive the parts they are made in.
	for _, s := range sizes[:2] {
		b.Run(s.name, func(b *testing.B) {
			text := s.document(fmt.Sprint("start ", b.N))
			w.put(secretName, map[string]string{"osc.yaml": text})

			var times []time.Duration
			for range b.N {
				dir := nodeDirectory(whole)
				w.admit(dir, "machine-1")
				node := child{
					Dir:        dir,
					Config:     w.config(),
					Kubelet:    kubelet,
					Containerd: containerd,
					Socket:     w.startSystemd(dir),
					Steady:     steadyLong,
				}

				w.must("PATCH", nodes+"/node-1",
					`{"metadata": {"annotations": {"checksum/cloud-config-data": null}}}`)
				start := time.Now()
				_, end := w.startSelf(childVariable, node.text(w))
				for (<-seen).value != "" { // of the node before
				}
				times = append(times, until(b, seen, text).Sub(start))
				end()
			}

			median(b, times)
		})
	}
}

// nodeDirectory is an empty directory on the disk that the build is on.
func nodeDirectory(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp(os.Getenv("LOAM_BENCH_DIR"), "node-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			b.Error(err)
		}
	})

	return dir
}

// traced is how many system calls the process does meanwhile, as strace counts
// them. It makes them slow, so nothing else is measured with it.
func traced(b *testing.B, pid int, f func()) int64 {
	b.Helper()
	summary := filepath.Join(b.TempDir(), "calls")
	cmd := exec.Command("strace", "-f", "-c", "-U", "calls,name", "-S", "calls", "-o", summary,
		"-p", strconv.Itoa(pid))
	said, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}

	if err != nil {
		b.Fatalf("count system calls: %v", err)
	}

	lines := bufio.NewScanner(said)
	if !lines.Scan() || !strings.Contains(lines.Text(), "attached") {
		b.Fatalf("strace: %s", lines.Text())
	}

	go func() { _, _ = io.Copy(io.Discard, said) }()
	f()
	err = cmd.Process.Signal(syscall.SIGINT)
	err = errors.Join(err, cmd.Wait())
	if err != nil && cmd.ProcessState.Exited() {
		b.Fatalf("strace: %v", err)
	}

	text, err := os.ReadFile(summary)
	if err != nil {
		b.Fatal(err)
	}

	if os.Getenv("LOAM_LOG") != "" {
		b.Logf("%s", text)
	}

	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[1] == "total" {
			calls, err := strconv.ParseInt(fields[0], 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			return calls
		}
	}

	b.Fatalf("strace counted nothing:\n%s", text)
	return 0
}
