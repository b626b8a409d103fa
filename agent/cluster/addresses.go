package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/loam-os/loam/agent/liveness"
)

// restoreAddresses restores an internal address that the Node lost and that an
// interface still has. If another writer changed the Node first, the next step
// decides by the new version. If the API server rejects the patch for good, the
// kubelet is restarted, once for each loss.
func (s *session) restoreAddresses(ctx context.Context) error {
	if s.node == nil || s.Addresses == nil {
		return nil
	}

	now := addressesOf(s.node)
	if slices.ContainsFunc(s.node.Status.Addresses, func(a core.NodeAddress) bool {
		return a.Type == core.NodeInternalIP
	}) {
		s.addresses = now
		s.kubeletRestarted = false
		return nil
	}

	if s.addresses == nil {
		return nil
	}

	local, err := s.Addresses()
	if err != nil {
		return fmt.Errorf("list the node's addresses: %w", err)
	}

	want := liveness.Restore(s.addresses, now, local)
	if want == nil {
		return nil
	}

	patch, err := addressPatch(s.node, want)
	if err != nil {
		return err
	}

	n, err := s.api.patchNode(ctx, s.node.Name, "status", mergePatch, patch)
	if isRefusal(err) && !apierrors.IsConflict(err) && !s.kubeletRestarted {
		s.kubeletRestarted = true
		s.restartBeside([]string{kubeletUnit}, nil) // It writes the addresses when it starts.
	}

	if err != nil {
		return err
	}

	s.node = n
	s.seen = true
	s.Event(true, "NodeAddress", "restored the internal address that the Node had lost")

	return nil
}

func addressesOf(n *core.Node) []liveness.Address {
	var all []liveness.Address
	for _, a := range n.Status.Addresses {
		all = append(all, liveness.Address{Type: string(a.Type), Address: a.Address})
	}
	return all
}

// addressPatch returns a merge patch of the Node's status that applies only to
// this resource version of the Node.
func addressPatch(n *core.Node, want []liveness.Address) ([]byte, error) {
	var all []core.NodeAddress
	for _, a := range want {
		all = append(all, core.NodeAddress{Type: core.NodeAddressType(a.Type), Address: a.Address})
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": n.ResourceVersion},
		"status":   map[string]any{"addresses": all},
	})
}
