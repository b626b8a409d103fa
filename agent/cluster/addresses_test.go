package cluster

import (
	"context"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	core "k8s.io/api/core/v1"

	"github.com/loam-os/loam/agent/liveness"
)

func withAddresses(all ...core.NodeAddress) *core.Node {
	n := annotated(appliedAnnotation, "old")
	n.ResourceVersion = "7"
	n.Status.Addresses = all
	return n
}

var (
	internal = core.NodeAddress{Type: core.NodeInternalIP, Address: "10.0.0.7"}
	hostname = core.NodeAddress{Type: core.NodeHostName, Address: "node-1"}
)

func TestLostAddress(t *testing.T) {
	had := addresses{last: []liveness.Address{{Type: "InternalIP", Address: "10.0.0.7"}}}
	local := []netip.Addr{netip.MustParseAddr("10.0.0.7")}
	const restored = `{"metadata":{"resourceVersion":"7"},"status":{"addresses":` +
		`[{"type":"InternalIP","address":"10.0.0.7"},{"type":"Hostname","address":"node-1"}]}}`

	for _, tt := range []struct {
		name  string
		had   addresses
		node  *core.Node
		local []netip.Addr
		lost  bool
		patch string
	}{
		{"a Node that has it", had, withAddresses(internal, hostname), local, false, ""},
		{"a Node that never had one", addresses{}, withAddresses(hostname), local, false, ""},
		{"a Node that has lost it", had, withAddresses(hostname), local, true, restored},
		{"a Node and an interface that have lost it", had, withAddresses(hostname), nil, true, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			next, lost := tt.had.next(tt.node)
			if lost != tt.lost {
				t.Errorf("lost %v", lost)
			}
			if patch, err := next.patch(tt.node, tt.local); string(patch) != tt.patch ||
				err != nil {
				t.Errorf("patch %s, %v", patch, err)
			}
		})
	}
}

// The kubelet writes its addresses when it starts, but is not restarted again
// and again.
func TestKubeletIsRestartedOncePerLoss(t *testing.T) {
	var restarted atomic.Int32
	forbids := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	})

	jobs := newTestJobs(t)
	c := addressController{
		api:       newTestAPI(t, forbids),
		addresses: &addresses{},
		local: func() ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("10.0.0.7")}, nil
		},
		restarts: restarter{
			restart: func(_ context.Context, units []string) error {
				restarted.Add(1)
				if got := strings.Join(units, " "); got != kubeletUnit {
					t.Errorf("restarted %s", got)
				}
				return nil
			},
			jobs:  jobs,
			inbox: newInbox(),
		},
		inbox: newInbox(),
	}

	w := newWorld()
	for i, tt := range []struct {
		node *core.Node
		want int32
	}{
		{withAddresses(internal), 0},
		{withAddresses(hostname), 1},
		{withAddresses(hostname), 1},
		{withAddresses(internal), 1},
		{withAddresses(hostname), 2},
	} {
		w.setNode(tt.node)
		_, _ = c.step(t.Context(), &w)
		jobs.group.Wait()
		if got := restarted.Load(); got != tt.want {
			t.Errorf("step %d: restarted %d times, want %d", i, got, tt.want)
		}
	}
}
