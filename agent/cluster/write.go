package cluster

import (
	"context"
	"fmt"
	"time"

	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"go.uber.org/zap"
)

const (
	mergePatch     = types.MergePatchType
	strategicPatch = types.StrategicMergePatchType
)

// patchNode patches the Node or its subresource part.
func (a *api) patchNode(
	ctx context.Context, name, part string, kind types.PatchType, patch []byte,
) (*core.Node, error) {
	n := &core.Node{}
	r := a.core.Patch(kind).Resource("nodes").Name(name)
	if part != "" {
		r = r.SubResource(part)
	}
	if err := r.Body(patch).Do(ctx).Into(n); err != nil {
		return nil, fmt.Errorf("patch Node %s: %w", name, err)
	}
	return n, nil
}

// event creates an Event about the Node. It is best effort and not retried.
func (s *session) event(n *core.Node, kind, reason, message string) {
	now := meta.NewTime(s.Now())
	e := &core.Event{
		ObjectMeta: meta.ObjectMeta{
			Name:      fmt.Sprintf("%s.%x", n.Name, s.Now().UnixNano()),
			Namespace: meta.NamespaceDefault,
		},
		InvolvedObject: core.ObjectReference{
			Kind:       "Node",
			APIVersion: "v1",
			Name:       n.Name,
			UID:        n.UID,
		},
		Type:                kind,
		Reason:              reason,
		Message:             message,
		FirstTimestamp:      now,
		LastTimestamp:       now,
		Count:               1,
		Source:              core.EventSource{Component: "gardener-node-agent", Host: n.Name},
		ReportingController: "gardener-node-agent",
		ReportingInstance:   n.Name,
	}

	s.group.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
		defer cancel()

		err := s.api.core.Post().Namespace(e.Namespace).Resource("events").Body(e).Do(ctx).Error()
		if err != nil {
			s.Log.Warn("report an event", zap.String("reason", reason), zap.Error(err))
		}
	})
}

// renewLease renews the agent's own Lease, which shows that the agent is alive.
func (s *session) renewLease(ctx context.Context) error {
	if s.node == nil {
		s.lease = nil
		return nil
	}

	at := s.Now()
	if at.Before(s.renewed.Add(leaseRenew-time.Second/10)) && !at.Before(s.renewed) &&
		s.lease != nil {
		// Not before the last renewal, since the clock may be set back.
		s.wakeAt(s.renewed.Add(leaseRenew))
		return nil
	}

	name := leasePrefix + s.node.Name
	term := int32(leaseTerm / time.Second)
	now := meta.NewMicroTime(at)
	l, err := s.api.putLease(ctx, s.lease, name, func(l *coordination.Lease) error {
		l.OwnerReferences = []meta.OwnerReference{{
			APIVersion: "v1",
			Kind:       "Node",
			Name:       s.node.Name,
			UID:        s.node.UID,
		}}

		l.Spec.HolderIdentity = &name
		l.Spec.LeaseDurationSeconds = &term
		l.Spec.RenewTime = &now

		return nil
	})

	s.lease = l
	if err == nil {
		s.renewed = at
		s.wakeAt(s.renewed.Add(leaseRenew))
	}

	return err
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
