package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"go.uber.org/zap"

	"github.com/loam-os/loam/agent/printable"
)

const (
	mergePatch     = types.MergePatchType
	strategicPatch = types.StrategicMergePatchType
)

// patchNode patches the Node of w or its subresource part, and puts the answer
// into w. A nil patch changes nothing.
func (a *api) patchNode(
	ctx context.Context, w *world, part string, kind types.PatchType, patch []byte,
) error {
	if w.node == nil {
		return errors.New("the Node is gone")
	}
	if patch == nil {
		return nil
	}

	r := a.core.Patch(kind).Resource("nodes").Name(w.node.Name)
	if part != "" {
		r = r.SubResource(part)
	}

	n := &core.Node{}
	if err := r.Body(patch).Do(ctx).Into(n); err != nil {
		return fmt.Errorf("patch Node %s: %w", w.node.Name, err)
	}

	w.setNode(n)
	return nil
}

// patchAnnotations sets annotations of the own Node; nil removes one.
func (a *api) patchAnnotations(ctx context.Context, w *world, annotations map[string]any) error {
	return a.patchMetadata(ctx, w, map[string]any{"annotations": annotations})
}

// patchSeen is patchAnnotations if the Node is as it was seen last, and a conflict
// otherwise. A patch whose answer never came may reach the API server after later ones:
// then it changes nothing.
func (a *api) patchSeen(ctx context.Context, w *world, annotations map[string]any) error {
	metadata := map[string]any{"annotations": annotations}
	if w.node != nil {
		metadata["resourceVersion"] = w.node.ResourceVersion
	}
	return a.patchMetadata(ctx, w, metadata)
}

func (a *api) patchMetadata(ctx context.Context, w *world, metadata map[string]any) error {
	text, _ := json.Marshal(map[string]any{"metadata": metadata}) // Strings only.
	return a.patchNode(ctx, w, "", mergePatch, text)
}

// eventWriter creates Events about the Node. They are best effort and not
// retried.
type eventWriter struct {
	api   *api
	group *sync.WaitGroup
	log   *zap.Logger
}

// write creates an Event about n in the background.
func (w eventWriter) write(n *core.Node, at time.Time, e event) {
	object := eventOf(n, at, e)
	w.group.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()

		err := w.api.core.Post().Namespace(object.Namespace).Resource("events").Body(object).
			Do(ctx).Error()
		if err != nil {
			w.log.Warn("report an event", zap.String("reason", e.reason), zap.Error(err))
		}
	})
}

func eventOf(n *core.Node, at time.Time, e event) *core.Event {
	now := meta.NewTime(at)

	return &core.Event{
		ObjectMeta: meta.ObjectMeta{
			Name:      fmt.Sprintf("%s.%x", n.Name, at.UnixNano()),
			Namespace: meta.NamespaceDefault,
		},
		InvolvedObject: core.ObjectReference{
			Kind:       "Node",
			APIVersion: "v1",
			Name:       n.Name,
			UID:        n.UID,
		},
		Type:                e.kind,
		Reason:              e.reason,
		Message:             printable.Message(e.message, maxMessage),
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
		Source:              core.EventSource{Component: "gardener-node-agent", Host: n.Name},
		ReportingController: "gardener-node-agent",
		ReportingInstance:   n.Name,
	}
}

// putLease creates or updates a Lease. have is its last known state, nil for
// none. edit gets that state; if it returns an error, nothing is written.
// putLease returns the new state.
func (a *api) putLease(
	ctx context.Context,
	have *coordination.Lease,
	name string,
	edit func(*coordination.Lease) error,
) (*coordination.Lease, error) {
	l := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: name, Namespace: namespace}}
	if have != nil && have.Name == name {
		l = have.DeepCopy()
	} else if err := a.lease(name, a.coordination.Get()).Do(ctx).Into(l); err != nil &&
		!apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("get Lease %s: %w", name, err)
	}

	if err := edit(l); err != nil {
		return l, err
	}

	r := a.coordination.Post().Namespace(namespace).Resource("leases")
	if l.ResourceVersion != "" {
		r = a.lease(name, a.coordination.Put())
	}

	done := &coordination.Lease{}
	if err := r.Body(l).Do(ctx).Into(done); err != nil {
		return nil, fmt.Errorf("write Lease %s: %w", name, err)
	}

	return done, nil
}

// lease adds the Lease of that name to a request.
func (a *api) lease(name string, r *rest.Request) *rest.Request {
	return r.Namespace(namespace).Resource("leases").Name(name)
}
