package recorded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster"
)

// contestant is one of the two node agents that are measured beside each other:
// what its Node says, its Secret and its process.
type contestant struct {
	secret string
	seen   <-chan annotation
	pid    int
}

// contest is a cluster with two nodes, one of Loam and one of Gardener's own
// node agent, each with a systemd of its own.
type contest struct {
	*fixture

	// kubelet is the address of the kubelet of Loam's node, and containerd the
	// socket of its containerd.
	kubelet, containerd string

	// referenceContainerd is the socket of the reference's containerd.
	referenceContainerd string
}

// newContest makes the cluster and both Nodes.
func newContest(b *testing.B) *contest {
	w := newFixture(b, cluster.Options{})
	w.addNode()
	w.must("POST", nodes,
		fmt.Sprintf(`{"metadata": {"name": "node-2", "labels": {"kubernetes.io/hostname": %q}}}`,
			referenceHost))

	w.put("token", map[string]string{"token": "t"})

	c := &contest{fixture: w}
	c.kubelet, c.containerd = answering(b)
	c.referenceContainerd = answeringReference(b)

	return c
}

// watched returns the two contestants. Their Nodes are watched until ctx ends.
func (c *contest) watched(ctx context.Context) (loam, reference contestant) {
	loam = contestant{
		secret: secretName,
		seen:   c.annotationsOf(ctx, "node-1"),
	}
	reference = contestant{
		secret: referenceSecret,
		seen:   c.annotationsOf(ctx, "node-2"),
	}
	return loam, reference
}

// loamNode is an empty node of Loam.
func (c *contest) loamNode(b *testing.B) child {
	b.Helper()
	dir := nodeDirectory(b)
	c.admit(dir, "machine-1")
	return child{
		Dir:        dir,
		Config:     c.config(),
		Kubelet:    c.kubelet,
		Containerd: c.containerd,
		Socket:     c.startSystemd(dir),
		Steady:     steadyLong,
	}
}

// publish makes the contestant's Secret what Gardener makes it: the document,
// and its digest as an annotation, which Gardener's own node agent goes by.
func (c *contest) publish(of contestant, document string) {
	c.Helper()
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"name":        of.secret,
			"annotations": map[string]string{"checksum/data-script": sum(document)},
		},
		"data": map[string]any{"osc.yaml": []byte(document)},
	})
	if err != nil {
		c.Fatal(err)
	}

	_, err = c.Do("PUT", secrets+"/"+of.secret, string(body))
	var missing *cluster.StatusError
	if errors.As(err, &missing) && missing.Code == http.StatusNotFound {
		c.must("POST", secrets, string(body))
		return
	}

	if err != nil {
		c.Fatal(err)
	}
}

// change has a contestant apply another document, and returns how long that
// took from the answer to the PUT to the Node's annotation.
func (c *contest) change(b *testing.B, of contestant, document string) time.Duration {
	b.Helper()
	c.publish(of, document)
	start := time.Now()
	took := until(b, of.seen, document).Sub(start)
	time.Sleep(afterChange)

	return took
}

// spent is what the changes of one contestant have taken.
type spent struct {
	times             []time.Duration
	cpu               time.Duration
	switches, written int64
}

// measure adds what f takes, which is a change of the process pid.
func (s *spent) measure(b *testing.B, pid int, f func() time.Duration) {
	b.Helper()
	before := usageOf(b, pid)
	s.times = append(s.times, f())
	after := usageOf(b, pid)
	s.cpu += after.cpu - before.cpu
	s.switches += after.switches - before.switches
	s.written += after.written - before.written
}

func (s *spent) median() time.Duration {
	slices.Sort(s.times)
	return s.times[len(s.times)/2]
}

// ratio returns what Loam has taken by what the reference has.
func ratio[N ~int64](loam, reference N) float64 { return float64(loam) / float64(reference) }

// BenchmarkReferenceChange is BenchmarkChange of Gardener's own node agent, and
// its ratios of what Loam takes for the same changes, which alternate with it.
func BenchmarkReferenceChange(b *testing.B) {
	c := newContest(b)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()

	loam, reference := c.watched(ctx)

	first := sizes[0].document("first")
	c.publish(loam, first)
	c.publish(reference, first)
	loam.pid = c.startChild(c.loamNode(b))
	dir := nodeDirectory(b)
	started := c.prepare(c.newReference(dir, c.referenceContainerd))
	started.begin()
	reference.pid = started.pid
	until(b, loam.seen, first)
	until(b, reference.seen, first)

	both := []contestant{loam, reference}
	for _, s := range sizes[:3] {
		b.Run(s.name, func(b *testing.B) {
			var taken [2]spent
			for _, of := range both {
				c.change(b, of, s.document(fmt.Sprint("before ", b.N)))
			}

			for i := range b.N {
				document := s.document(fmt.Sprintf("%d of %d", i, b.N))
				for j, of := range both {
					taken[j].measure(b, of.pid, func() time.Duration {
						return c.change(b, of, document)
					})
				}
			}

			c.applied(b, dir, s, fmt.Sprintf("%d of %d", b.N-1, b.N))

			l := &taken[0]
			r := &taken[1]
			n := float64(b.N)
			b.ReportMetric(float64(r.cpu.Microseconds())/1e3/n, "cpu-ms")
			b.ReportMetric(float64(r.switches)/n, "switches")
			b.ReportMetric(float64(r.written)/1024/n, "written-KiB")
			b.ReportMetric(ratio(l.median(), r.median()), "p50-ratio")
			b.ReportMetric(ratio(l.cpu, r.cpu), "cpu-ratio")
			b.ReportMetric(ratio(l.switches, r.switches), "switches-ratio")
			b.ReportMetric(ratio(l.written, r.written), "written-ratio")
			median(b, r.times)
		})

		b.Run(s.name+"-calls", func(b *testing.B) {
			var calls [2]int64
			for j, of := range both {
				c.change(b, of, s.document(fmt.Sprint("traced before ", b.N)))
				calls[j] = traced(b, of.pid, func() {
					for i := range b.N {
						c.change(b, of, s.document(fmt.Sprintf("traced %d of %d", i, b.N)))
					}
				})
			}

			b.ReportMetric(float64(calls[1])/float64(b.N), "calls")
			b.ReportMetric(ratio(calls[0], calls[1]), "calls-ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkReferenceStart is BenchmarkStart of Gardener's own node agent, from
// its execve(2), and its ratio of what Loam takes, whose starts alternate with
// it.
func BenchmarkReferenceStart(b *testing.B) {
	c := newContest(b)
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()

	loam, reference := c.watched(ctx)
	whole := b // Nodes outlive the parts they are made in.

	for _, s := range sizes[:2] {
		b.Run(s.name, func(b *testing.B) {
			document := s.document(fmt.Sprint("start ", b.N))
			c.publish(loam, document)
			c.publish(reference, document)

			var taken [2]spent
			for range b.N {
				node := c.loamNode(whole)
				c.forget(nodes + "/node-1")
				start := time.Now()
				_, end := c.startSelf(childVariable, node.text(c))
				taken[0].times = append(taken[0].times,
					untilAgain(b, loam.seen, document).Sub(start))
				end()

				dir := nodeDirectory(whole)
				started := c.prepare(c.newReference(dir, c.referenceContainerd))
				c.forget(referenceNode)
				start = time.Now()
				started.begin()
				taken[1].times = append(taken[1].times,
					untilAgain(b, reference.seen, document).Sub(start))
				started.end()
				c.applied(b, dir, s, fmt.Sprint("start ", b.N))
			}

			b.ReportMetric(ratio(taken[0].median(), taken[1].median()), "p50-ratio")
			median(b, taken[1].times)
		})
	}
}

// forget removes the annotation of a Node.
func (c *contest) forget(node string) {
	c.Helper()
	c.must("PATCH", node, `{"metadata": {"annotations": {"checksum/cloud-config-data": null}}}`)
}

// untilAgain is until, once the Node has lost the annotation that it had.
func untilAgain(b *testing.B, seen <-chan annotation, text string) time.Time {
	b.Helper()
	limit := time.After(30 * time.Second)
	for {
		select {
		case a := <-seen:
			if a.value == "" {
				return until(b, seen, text)
			}
		case <-limit:
			b.Fatal("the Node kept its annotation")
		}
	}
}

// applied makes sure that the reference has written the files of the document.
func (c *contest) applied(b *testing.B, dir string, s size, text string) {
	b.Helper()
	for i := range s.files {
		want := s.content(i, "the same")
		if i < s.changed {
			want = s.content(i, text)
		}

		have, err := os.ReadFile(filepath.Join(dir, s.path(i)))
		if err != nil {
			b.Fatal(err)
		}
		if string(have) != want {
			b.Fatalf("%s of the reference says %.20q, not %.20q", s.path(i), have, want)
		}
	}
}
