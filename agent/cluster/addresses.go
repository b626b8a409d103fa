package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/loam-os/loam/agent/liveness"
)

// addresses are the Node's addresses when it last had an internal one, nil
// before. restarted says that the kubelet was restarted for a lost address.
type addresses struct {
	last      []liveness.Address
	restarted bool
}

// next takes in the Node's addresses and reports whether it has lost an
// internal one.
func (a addresses) next(n *core.Node) (next addresses, isLost bool) {
	if slices.ContainsFunc(n.Status.Addresses, func(a core.NodeAddress) bool {
		return a.Type == core.NodeInternalIP
	}) {
		return addresses{last: addressesOf(n)}, false
	}
	return a, a.last != nil
}

func addressesOf(n *core.Node) []liveness.Address {
	var all []liveness.Address
	for _, a := range n.Status.Addresses {
		all = append(all, liveness.Address{Type: string(a.Type), Address: a.Address})
	}
	return all
}

// patch returns a merge patch of the Node's status with the lost addresses that
// are in local, nil if none. It applies only to this resource version of the
// Node.
func (a addresses) patch(n *core.Node, local []netip.Addr) ([]byte, error) {
	want := liveness.Restore(a.last, addressesOf(n), local)
	if want == nil {
		return nil, nil
	}

	var all []core.NodeAddress
	for _, a := range want {
		all = append(all, core.NodeAddress{Type: core.NodeAddressType(a.Type), Address: a.Address})
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion},
		"status":   map[string]any{"addresses": all},
	})
}

// addressController restores an internal address that the Node lost and that an
// interface still has. If another writer changed the Node first, the next step
// decides by the new version. If the API server rejects the patch for good, the
// kubelet is restarted, once for each loss: it writes the addresses when it
// starts.
type addressController struct {
	api       *api
	addresses *addresses
	local     func() ([]netip.Addr, error)
	restarts  restarter
	inbox     inbox
}

func (c *addressController) step(ctx context.Context, w *world) (outcome, error) {
	if w.node == nil || c.local == nil {
		return outcome{}, nil
	}

	next, isLost := c.addresses.next(w.node)
	*c.addresses = next
	if !isLost {
		return outcome{}, nil
	}

	local, err := c.local()
	if err != nil {
		return outcome{}, fmt.Errorf("list the node's addresses: %w", err)
	}

	patch, err := next.patch(w.node, local)
	if patch == nil || err != nil {
		return outcome{}, err
	}

	err = c.api.patchNode(ctx, w, "status", mergePatch, patch)
	if isRefusal(err) && !apierrors.IsConflict(err) && !next.restarted {
		c.addresses.restarted = true
		c.restarts.run([]string{kubeletUnit}, func() {})
	}
	if err != nil {
		return outcome{}, err
	}

	c.inbox.event(true, "NodeAddress", "restored the internal address that the Node had lost")
	return outcome{}, nil
}
