package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/zap"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/status"
)

func TestTheKubeletIsRestartedUntilItsNodeIsBack(t *testing.T) {
	node := &core.Node{ObjectMeta: meta.ObjectMeta{Name: "node-1"}}
	kubelet := status.Status{Units: []status.Unit{{Name: kubeletUnit}}}

	for _, test := range []struct {
		name string
		// begin is how the world is before the Node is gone.
		begin func(w *world)
		// back is when the Node is there again, 0 for never. Until cutOff, the API
		// server is out of reach, and the watch has nothing to say.
		back, cutOff time.Duration
		// want is when the kubelet is restarted, after the Node was gone.
		want []time.Duration
	}{
		{
			name:  "the pauses grow",
			begin: func(w *world) { w.setNode(node) },
			want: []time.Duration{
				10 * time.Second,
				70 * time.Second,
				190 * time.Second,
				430 * time.Second,
				910 * time.Second,
				1510 * time.Second,
			},
		},
		{
			name:  "it is back by itself",
			begin: func(w *world) { w.setNode(node) },
			back:  9 * time.Second,
		},
		{
			name:  "it is back after a restart",
			begin: func(w *world) { w.setNode(node) },
			back:  15 * time.Second,
			want:  []time.Duration{10 * time.Second},
		},
		{
			name:   "it is back while the API server is out of reach",
			begin:  func(w *world) { w.setNode(node) },
			back:   15 * time.Second,
			cutOff: 20 * time.Minute,
		},
		{
			name:   "it is gone, and the API server is out of reach for a time",
			begin:  func(w *world) { w.setNode(node) },
			back:   101 * time.Second,
			cutOff: 30 * time.Second,
			want:   []time.Duration{30 * time.Second, 90 * time.Second},
		},
		{
			name:  "there was none yet",
			begin: func(w *world) { w.node = nil },
		},
		{
			name: "the node runs no kubelet",
			begin: func(w *world) {
				w.setNode(node)
				w.status.Units = nil
			},
		},
		{
			name: "an update in place is under way",
			begin: func(w *world) {
				w.setNode(node)
				w.updating = inplace.Kubelet
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var restarted []time.Duration
			var after time.Duration

			jobs := newTestJobs(t)
			c := absenceController{
				link: newLink(zap.NewNop(), status.Cluster{Connected: true}),
				restarts: restarter{
					restart: func(context.Context, []string) error {
						restarted = append(restarted, after)
						return nil
					},
					jobs:  jobs,
					inbox: newInbox(),
				},
			}

			const start = time.Hour
			w := newWorld()
			w.tick(w.now, start)
			w.status = kubelet
			test.begin(&w)
			w.setNode(nil)

			for ; after < 30*time.Minute; after += time.Second {
				switch {
				case after < test.cutOff:
					w.loseNode()
				case test.back != 0 && after >= test.back:
					w.setNode(node)
				default:
					w.setNode(nil)
				}
				w.tick(w.now.Add(time.Second), start+after)
				if _, err := c.step(t.Context(), &w); err != nil {
					t.Fatal(err)
				}
				jobs.group.Wait()
			}

			if diff := cmp.Diff(test.want, restarted); diff != "" {
				t.Errorf("restarts (-want +got):\n%s", diff)
			}
			isGone := w.absent.name != ""
			if problem := c.link.get().Problem; isGone != (problem != "") {
				t.Errorf("the problem is %q", problem)
			}
		})
	}
}
