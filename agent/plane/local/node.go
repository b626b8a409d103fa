package local

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"github.com/loam-os/loam/agent/plane"
	"github.com/loam-os/loam/agent/plane/api"
)

// roleLabel shows in `kubectl get nodes` that a node has a control plane. A kubelet
// must not give it to itself.
const roleLabel = "node-role.kubernetes.io/control-plane"

// nodeObject is the part of a Node that is as its record says.
type nodeObject struct {
	Metadata struct {
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
	} `json:"metadata"`
	Spec struct {
		Taints []map[string]any `json:"taints"`
	} `json:"spec"`
}

// patch returns the JSON merge patch (RFC 7396) that gives the Node its label, and its
// taint unless pods of all kinds run on it; nil if it is so. The kubelet gives the taint
// to a Node that it makes, and never changes it again.
func (n nodeObject) patch(schedulable bool) map[string]any {
	metadata, patch := map[string]any{}, map[string]any{}
	if _, has := n.Metadata.Labels[roleLabel]; !has {
		metadata["labels"] = map[string]string{roleLabel: ""}
	}

	isOurs := func(taint map[string]any) bool {
		return taint["key"] == plane.TaintKey && taint["effect"] == plane.TaintEffect
	}
	switch has := slices.ContainsFunc(n.Spec.Taints, isOurs); {
	case has && schedulable:
		others := slices.DeleteFunc(slices.Clone(n.Spec.Taints), isOurs)
		patch["spec"] = map[string]any{"taints": others}
	case !has && !schedulable:
		ours := map[string]any{"key": plane.TaintKey, "effect": plane.TaintEffect}
		patch["spec"] = map[string]any{"taints": append(slices.Clone(n.Spec.Taints), ours)}
	}
	if patch["spec"] != nil { // The list is replaced as a whole, and others write it, too.
		metadata["resourceVersion"] = n.Metadata.ResourceVersion
	}

	if len(metadata) == 0 {
		return nil
	}
	patch["metadata"] = metadata
	return patch
}

// nodeTries is how often a change of a Node is tried while others change it, too.
const nodeTries = 5

// reconcileNode makes the Node of that name as its record says. The kubelet makes the
// Node.
func reconcileNode(
	ctx context.Context, server *api.Client, name string, r plane.Record,
) (err error) {
	for range nodeTries {
		err = changeNode(ctx, server, name, r)
		if !api.IsConflict(err) {
			return err
		}
	}
	return err
}

// changeNode is a try of reconcileNode.
func changeNode(ctx context.Context, server *api.Client, name string, r plane.Record) error {
	at := "/api/v1/nodes/" + name
	var object nodeObject
	err := server.Do(ctx, http.MethodGet, at, nil, &object)
	if api.IsNotFound(err) {
		return fmt.Errorf("the kubelet has not registered the Node %s yet", name)
	}
	if err != nil {
		return fmt.Errorf("read the Node: %w", err)
	}

	patch := object.patch(*r.Schedulable)
	if patch == nil {
		return nil
	}
	if err := server.Merge(ctx, at, patch); err != nil {
		return fmt.Errorf("change the Node: %w", err)
	}
	return nil
}
