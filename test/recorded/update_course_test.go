package recorded

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loam-os/loam/test/cluster"
)

// notDrained takes back that the Node is ready for an update, and how the last
// one went.
func (w *fixture) notDrained() {
	w.Helper()
	w.must("PATCH", nodes+"/node-1/status",
		`{"status": {"conditions": [{"type": "InPlaceUpdate", "status": "True", "reason": "Other"}]}}`)
	w.must("PATCH", nodes+"/node-1", `{"metadata": {"labels": {"`+updateResult+`": null}}}`)
	w.nodeSeen()
}

// begins has an update to text wait for the kubelet, until well.
func (w *fixture) begins(d *drill, text string) (well func()) {
	w.Helper()
	asked, well := d.hold()
	w.says(text)
	w.drained()
	<-asked

	return well
}

// TestTheCourseOfAnUpdateInPlace begins each time on a node that runs a
// configuration which speaks of updates, and is not drained.
func TestTheCourseOfAnUpdateInPlace(t *testing.T) {
	t.Parallel()
	base := updatable("one", "1.35.0", "1.0.0", spring)
	next := updatable("two", "1.36.0", "1.0.0", spring)
	unfit := strings.Replace(next, "path: /etc/a", "path: etc/a", 1)
	const waits = "update of kubelet's version waits for the Node to be drained"
	w := newFixture(t, cluster.Options{Controllers: true})
	d := &drill{}
	var list atomic.Pointer[func()] // is called when the pods are listed.
	w.interpose().answers = func(_ http.ResponseWriter, r *http.Request) bool {
		if f := list.Load(); f != nil && r.Method == "GET" && r.URL.Path == "/api/v1/pods" {
			(*f)()
		}
		return false
	}

	w.adjust = d.adjust
	w.join(base)
	w.write(kubeletCertificate, w.kubelet("node-1"))

	for _, tt := range []struct {
		name string
		test func(t *testing.T)
	}{
		{"an update that is withdrawn while the kubelet is awaited", func(*testing.T) {
			well := w.begins(d, next)
			back := updatable("back", "1.35.0", "1.0.0", spring)
			w.says(back)
			w.file("etc/a", "back")
			well()
			w.annotated(back)
		}},
		{"updates that are no longer spoken of while the kubelet is awaited", func(*testing.T) {
			well := w.begins(d, next)
			w.says(osc("three"))
			w.file("etc/a", "three")
			well()
			w.annotated(osc("three"))
		}},
		{"updates that are no longer spoken of after one failed", func(*testing.T) {
			w.says(unfit)
			w.drained()
			w.labelled(updateResult, "failed")
			w.becomes(osc("three"))
		}},
		{"another while the kubelet is awaited waits for a drained node, too", func(*testing.T) {
			well := w.begins(d, next)
			w.notDrained()
			w.says(updatable("three", "1.37.0", "1.0.0", spring))
			w.poke()
			w.still("etc/a", "two")
			well()
			w.waitsFor(waits)
			w.still("etc/a", "two")
		}},
		{"a number in the kubelet's configuration that cannot be read", func(*testing.T) {
			w.says(strings.Replace(next, "'kind: KubeletConfiguration'",
				"'{kind: KubeletConfiguration, kubeReserved: [cpu]}'", 1))
			w.waitsFor("update of read /var/lib/kubelet/config/kubelet")
			w.still("etc/a", "one")
		}},
		{
			"an update that failed, was withdrawn and is requested again waits again",
			func(*testing.T) {
				// It can be applied once its Secret is there.
				needs := strings.Replace(next, "  inPlaceUpdates:",
					referring+"  inPlaceUpdates:", 1)
				w.says(needs)
				w.drained()
				w.waitsFor("update in place: ")
				// What the Node is annotated with has not changed, so only this says that
				// the node has seen it.
				w.says(base)
				w.waitsFor("")
				w.notDrained()
				w.put("ca", map[string]string{"bundle.crt": "A"})
				w.says(needs)
				w.waitsFor(waits)
				w.still("etc/a", "one")
			},
		},
		{"a corrupt record", func(*testing.T) {
			w.stop()
			w.write(updateRecord, `{"done":{"os":"1.0`)
			w.says(next)
			w.startAgain()
			w.waitsFor("update of ")
			w.poke()
			w.still("etc/a", "one")
		}},
		{"the pods are deleted once, whatever becomes of the record", func(t *testing.T) {
			record := filepath.Join(w.node.Dir, updateRecord)
			var lists atomic.Int64
			full := func() { // Nothing can be written there any more.
				lists.Add(1)
				if err := errors.Join(os.RemoveAll(record),
					os.MkdirAll(filepath.Join(record, "full"), 0o755)); err != nil {
					t.Error(err)
				}
			}

			list.Store(&full)
			defer list.Store(nil)
			w.says(next)
			w.drained()
			w.labelled(updateResult, "failed")

			for range 2 {
				w.ahead.Add(int64(2 * time.Minute))
				w.poke()
			}

			if err := os.RemoveAll(record); err != nil {
				t.Fatal(err)
			}

			w.labelled(updateResult, "successful")
			w.annotated(next)

			if n := lists.Load(); n != 1 {
				t.Errorf("deleted %d times", n)
			}
		}},
		{"one is done when it can no longer be taken back", func(t *testing.T) {
			w.stop()
			w.startWith(w.node.Dir, "", w.systemd, 3*time.Second)
			w.says(next)
			w.drained()
			w.labelled(updateResult, "successful")

			if s, err := w.status(); err != nil || s.Change != nil {
				t.Errorf("it may still be: %+v %v", s.Change, err)
			}
		}},
	} {
		w.recorded()
		if !t.Run(tt.name, tt.test) {
			return // The next would begin elsewhere.
		}

		w.becomes(osc("nothing of updates"))
		w.await("the end of the record", func() error {
			if _, err := os.Lstat(filepath.Join(w.node.Dir, updateRecord)); err == nil {
				return errors.New("it is there")
			}
			return nil
		})

		w.notDrained()
		w.becomes(base)
	}
}
