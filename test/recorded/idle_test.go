package recorded

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/cluster"
)

// idleConfig has what kubelet and containerd are watched by, too.
func idleConfig(text string) string {
	o := sized(200, 50, 1, text)
	return strings.NewReplacer("unit-000.service", "containerd.service", "unit-001.service",
		"kubelet.service").Replace(o)
}

// startIdle runs a node in dir that has nothing left to do, and returns the ID
// of its process.
func (w *fixture) startIdle(dir, text string, steady time.Duration) int {
	w.Helper()

	// Reads must not cause writes: the agent is not to blame for access times.
	if out, err := exec.Command("chattr", "+A", dir).CombinedOutput(); err != nil {
		w.Logf("access times are kept: %v: %s", err, out)
	}

	w.countRequests()
	w.says(text)
	w.put("token", map[string]string{"token": "t"})
	w.addNode()
	w.admit(dir, "machine-1")
	kubelet, containerd := answering(w.TB)
	config := w.config()
	config.Gardener = true // There, the Lease is renewed most often.
	pid := w.startChild(child{
		Dir:        dir,
		Config:     config,
		Kubelet:    kubelet,
		Containerd: containerd,
		Steady:     steady,
	})

	w.annotated(text)
	// After a file has taken the place of another, the kernel frees what that one was.
	w.await("the end of the change", func() error {
		return errors.Join(atRest(dir), asleep(pid))
	})
	return pid
}

// atRest reports why a node still has something to do.
func atRest(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, "var/lib/loam/journal.json")); !errors.Is(err,
		os.ErrNotExist) {
		return errors.Join(errors.New("the change has not proven itself"), err)
	}

	s, err := readStatus(dir)
	if err == nil && (s.Phase != status.Applied || s.Change != nil || s.Error != nil ||
		len(s.Warnings) > 0 || s.Drift.Repaired > 0) {
		err = fmt.Errorf("phase %s, change %v, error %v, warnings %v, drift %v",
			s.Phase, s.Change, s.Error, s.Warnings, s.Drift)
	}

	return err
}

// readStatus returns the status of the node in dir.
func readStatus(dir string) (status.Status, error) {
	text, err := os.ReadFile(filepath.Join(dir, status.Path))
	if err != nil {
		return status.Status{}, err
	}
	return status.Parse(text)
}

// writesNothing checks that a node in dir writes nothing while act runs. Its status is all
// that it may have written and a snapshot does not tell of.
func writesNothing(t *testing.T, dir string, pid int, act func()) {
	t.Helper()
	before, err := readStatus(dir)
	used := usageOf(t, pid)
	act()

	written := usageOf(t, pid).written - used.written
	if written == 0 {
		return
	}
	after, afterErr := readStatus(dir)
	t.Errorf("wrote %d bytes; errors %v, %v; status (-before +after):\n%s",
		written, err, afterErr, cmp.Diff(before, after))
}

func TestAnIdleNodeOnlyRenewsItsLease(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{})
	dir := t.TempDir()
	pid := w.startIdle(dir, idleConfig("one"), 0)
	w.await("the first renewal", func() error { return w.renewals(1) })
	files := snapshot(t, dir)
	asked := w.tally()
	writesNothing(t, dir, pid, func() {
		w.await("a renewal", func() error { return w.renewals(asked.renewals + 1) })
	})

	if diff := cmp.Diff(files, snapshot(t, dir)); diff != "" {
		t.Errorf("the node's files changed (-before +after):\n%s", diff)
	}
	if more := w.tally().since(asked); more.rest != 0 {
		t.Errorf("%v requests that are no renewal and no watch", more.rest)
	}
}

// renewals reports that there were fewer.
func (w *fixture) renewals(want float64) error {
	if have := w.tally().renewals; have < want {
		return fmt.Errorf("%v renewals", have)
	}
	return nil
}

func TestALabelOfTheSecretWritesNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{})
	dir := t.TempDir()
	pid := w.startIdle(dir, idleConfig("one"), 0)
	files := snapshot(t, dir)
	writesNothing(t, dir, pid, func() {
		w.must(http.MethodPatch, secrets+"/"+secretName,
			`{"metadata": {"labels": {"new": "label"}}}`)

		// Once the node has put back what it loses here, it has seen the Secret,
		// too.
		const role = "node-role.kubernetes.io/worker"
		w.must(http.MethodPatch, nodes+"/node-1", `{"metadata": {"labels": {"`+role+`": null}}}`)
		w.nodeIs("labelled", func(n object) bool { _, ok := n.Metadata.Labels[role]; return ok })
	})

	// The Node gets this by the same watch as the label, and so after it.
	w.must(http.MethodPatch, secrets+"/"+secretName,
		`{"metadata": {"annotations": {"checksum/data-script": "another"}}}`)
	w.nodeIs("annotated", func(n object) bool {
		return n.Metadata.Annotations[applied] == "another"
	})

	if diff := cmp.Diff(files, snapshot(t, dir)); diff != "" {
		t.Errorf("the node's files changed (-before +after):\n%s", diff)
	}

	w.becomes(idleConfig("two"))
	if cmp.Equal(files, snapshot(t, dir)) {
		t.Error("another configuration was not seen to be written")
	}
}

// nodeIs waits until the Node is as it should be.
func (w *fixture) nodeIs(what string, right func(n object) bool) {
	w.Helper()
	w.await("the Node is "+what, func() error {
		n, err := w.get(nodes + "/node-1")
		if err == nil && !right(n) {
			err = fmt.Errorf("%+v", n.Metadata)
		}
		return err
	})
}

// BenchmarkIdle is a node with nothing to do, for as many seconds as there are
// rounds.
func BenchmarkIdle(b *testing.B) {
	w := newFixture(b, cluster.Options{})
	dir := b.TempDir()
	pid := w.startIdle(dir, idleConfig("one"), 10*time.Second)
	b.Run("200-files", func(b *testing.B) {
		files := snapshot(b, dir)
		asked := w.tally()
		used := usageOf(b, pid)
		start := time.Now()
		<-time.After(time.Duration(b.N) * time.Second)
		u := usageOf(b, pid)
		more := w.tally().since(asked)
		took := time.Since(start)
		b.ReportMetric((more.renewals+more.watches+more.rest+more.refused)/took.Minutes(),
			"requests/min")
		b.ReportMetric(float64(u.wakeups-used.wakeups)/took.Seconds(), "wakeups/s")
		b.ReportMetric(100*(u.cpu-used.cpu).Seconds()/took.Seconds(), "cpu-%")
		b.ReportMetric(float64(u.resident)/1e6, "rss-MB")
		b.ReportMetric(float64(u.anonymous)/1e6, "anonymous-MB")
		b.ReportMetric(float64(u.written-used.written), "written-B")
		b.ReportMetric(0, "ns/op")

		if diff := cmp.Diff(files, snapshot(b, dir)); diff != "" {
			b.Log(diff)
		}
	})
}
