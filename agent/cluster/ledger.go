package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	coordination "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/rest"

	"github.com/loam-os/loam/agent/turns"
)

const (
	// ledgerPrefix and the pool's name make the name of the ledger.
	ledgerPrefix = "loam-rollout-"

	// ledgerPoll is how often a ledger that cannot be understood is read.
	ledgerPoll = 30 * time.Second

	// conflictPause is the pause after a write that another node preceded. It doubles
	// with each until one succeeds or the Nodes are listed anew, up to maxDoubled times:
	// of many nodes that write at once, one succeeds.
	conflictPause = 500 * time.Millisecond
	maxDoubled    = 3

	// aside is how many times as long as from the read of a ledger to the answer to such
	// a write the pause is at least, up to maxConflictPause: the longer that takes, the
	// more writes come between, and the fewer nodes may write at once.
	aside            = 8
	maxConflictPause = 30 * time.Second
)

// ledgerName returns the name of the Lease that is the ledger of the node's
// pool. Gardener's authorizer refuses all Leases but the node's own and the Lease
// of a serial rollout, which has the name of the Secret. A policy replaces a
// serial rollout, so that Lease is free. Elsewhere, a turn is given in the ledger in
// which it was taken, whatever the pool of the Node is by then.
func ledgerName(w world) string {
	kept := w.turn.kept
	switch {
	case w.config.Gardener:
		return w.secret
	case kept.Phase != turns.Over && kept.Ledger != "":
		return kept.Ledger
	}
	return ledgerPrefix + poolOf(w)
}

// readLedger returns the Lease of a ledger, nil if absent.
func (a *api) readLedger(ctx context.Context, name string) (*coordination.Lease, error) {
	l := &coordination.Lease{}
	err := a.lease(name, a.coordination.Get()).Do(ctx).Into(l)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("get Lease %s: %w", name, err)
	}
	return l, nil
}

// createLedger makes a Lease a new ledger, which is nil if it does not exist. It
// returns the new one, nil if another node was faster: then it changes nothing.
func (a *api) createLedger(
	ctx context.Context, lease *coordination.Lease, name string, now time.Time,
) (*coordination.Lease, error) {
	if lease != nil {
		return a.writeLedger(ctx, lease, turns.New(), now)
	}

	l := leaseOf(&coordination.Lease{}, turns.New(), now)
	l.Name = name
	l.Namespace = namespace

	done := &coordination.Lease{}
	err := a.coordination.Post().Namespace(namespace).Resource("leases").Body(l).Do(ctx).Into(done)
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("create Lease %s: %w", name, err)
	}
	return done, nil
}

// writeLedger writes a ledger to its Lease, unless that has changed since it was
// read. It returns the Lease, nil if it has changed or is gone.
func (a *api) writeLedger(
	ctx context.Context, lease *coordination.Lease, ledger turns.Ledger, now time.Time,
) (*coordination.Lease, error) {
	done := &coordination.Lease{}
	err := a.lease(lease.Name, a.coordination.Put()).Body(leaseOf(lease, ledger, now)).Do(ctx).
		Into(done)
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("write Lease %s: %w", lease.Name, err)
	}
	return done, nil
}

// leaseOf returns the Lease with another ledger. What others wrote there stays.
// Each write has another time, so it is a change that later writes can be
// compared with.
//
// Who wrote which annotation is as long as the annotations, in each answer to each node,
// and nobody needs it: it is cleared (Kubernetes, Server-Side Apply, "Clearing
// managedFields"), and not recorded again. In Gardener, the Lease may become one of serial
// rollouts, of which that has to be known.
func leaseOf(
	lease *coordination.Lease, ledger turns.Ledger, now time.Time,
) *coordination.Lease {
	summary := ledger.Summary()
	renewed := meta.NewMicroTime(now)

	l := lease.DeepCopy()
	l.Annotations = ledger.Annotations(lease.Annotations)
	l.Spec.HolderIdentity = &summary
	l.Spec.RenewTime = &renewed
	if strings.HasPrefix(l.Name, ledgerPrefix) && len(l.ManagedFields) > 0 {
		l.ManagedFields = []meta.ManagedFieldsEntry{{}}
	}
	return l
}

// failureAnnotationOf returns the annotation of the Node that remembers a failed
// system, or a failed configuration if the version is "".
func failureAnnotationOf(version string) string {
	if version != "" {
		return failedSystemAnnotation
	}
	return failedAnnotation
}

// table is a list of Nodes as kubectl prints it (meta.k8s.io/v1, Table). The cells are those
// of nodeColumns; nobody decodes the others.
type table struct {
	ColumnDefinitions []struct{ Name string }
	Rows              []struct {
		Cells  [3]string
		Object meta.PartialObjectMetadata
	}
}

// nodeColumns are the first columns of a list of Nodes, which need no metadata.
var nodeColumns = [3]string{"Name", "Status", "Roles"}

// extent is how much is listed of the Nodes of a pool.
type extent int

const (
	// brief is whether each is away, and which are control planes: 40 KB of 5,000.
	brief extent = iota

	// labelled is also the metadata of those with a label of canaries or a pin: a list
	// more for each label.
	labelled

	// full is the metadata of all, with zones, racks and marks: 10 MB of 5,000.
	full
)

// listFleet lists the Nodes that match a label selector.
func (a *api) listFleet(
	ctx context.Context, selector string, e extent, rackLabel string,
) (turns.Fleet, error) {
	fleet, err := a.listNodes(ctx, selector, e == full, rackLabel)
	if err != nil || e != labelled {
		return fleet, err
	}

	for _, label := range []string{canaryLabel, pinnedLabel} {
		few := label
		if selector != "" {
			few = selector + "," + label
		}
		some, err := a.listNodes(ctx, few, true, rackLabel)
		if err != nil {
			return nil, err
		}
		fleet = withDetails(fleet, some)
	}
	return fleet, nil
}

// withDetails returns fleet with what is known of some of its Nodes.
func withDetails(fleet, some turns.Fleet) turns.Fleet {
	known := map[string]turns.Node{}
	for _, n := range some {
		known[n.Name] = n
	}
	for i, n := range fleet {
		if k, ok := known[n.Name]; ok {
			fleet[i] = k
		}
	}
	return fleet
}

// fewNames is how many Nodes are looked for by name. Where more are, all Nodes of the
// cluster are listed instead.
const fewNames = 8

// nodesNamed returns which Nodes of those names there are. Without details, zones and racks
// of many of them are not known.
func (a *api) nodesNamed(
	ctx context.Context, names []string, details bool, rackLabel string,
) (turns.Fleet, error) {
	var found turns.Fleet
	if len(names) > fewNames {
		all, err := a.listNodes(ctx, "", details, rackLabel)
		for _, n := range all {
			if slices.Contains(names, n.Name) {
				found = append(found, n)
			}
		}
		return found, err
	}

	for _, name := range names {
		named := fields.OneTermEqualSelector(meta.ObjectNameField, name).String()
		one, err := tableOf(ctx, a.nodeTable(true).Param("fieldSelector", named), rackLabel)
		if err != nil {
			return nil, err
		}
		found = append(found, one...)
	}
	return found, nil
}

// listNodes lists the Nodes that match a label selector.
func (a *api) listNodes(
	ctx context.Context, selector string, details bool, rackLabel string,
) (turns.Fleet, error) {
	r := a.nodeTable(details)
	if selector != "" {
		r = r.Param("labelSelector", selector)
	}
	return tableOf(ctx, r, rackLabel)
}

// nodeTable requests Nodes as kubectl prints them, with their metadata or without.
func (a *api) nodeTable(details bool) *rest.Request {
	include := "None"
	if details {
		include = "Metadata"
	}
	return a.core.Get().Resource("nodes").Param("includeObject", include).
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
}

// tableOf returns the Nodes that a request of [api.nodeTable] answers with.
func tableOf(ctx context.Context, r *rest.Request, rackLabel string) (turns.Fleet, error) {
	text, err := r.DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("list the Nodes of the pool: %w", err)
	}

	var t table
	if err := json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("list the Nodes of the pool: %w", err)
	}
	return fleetOf(t, rackLabel)
}

// fleetOf returns the Nodes of a list.
func fleetOf(t table, rackLabel string) (turns.Fleet, error) {
	for i, name := range nodeColumns {
		if len(t.ColumnDefinitions) <= i || t.ColumnDefinitions[i].Name != name {
			return nil, fmt.Errorf("list the Nodes of the pool: column %d is not %s", i+1, name)
		}
	}

	var fleet turns.Fleet
	for _, row := range t.Rows {
		name, status, roles := row.Cells[0], row.Cells[1], row.Cells[2]
		if name == "" || status == "" || roles == "" {
			return nil, fmt.Errorf("list the Nodes of the pool: a row without cells: %q", row.Cells)
		}
		node := turns.Node{
			Name: name,
			Away: isAway(status),

			ControlPlane: slices.Contains(strings.Split(roles, ","), controlPlaneRole),

			Mark: row.Object.Annotations[turnAnnotation],
			Zone: row.Object.Labels[zoneLabel],
		}
		_, node.Canary = row.Object.Labels[canaryLabel]
		_, node.Pinned = row.Object.Labels[pinnedLabel]
		_, node.Held = row.Object.Annotations[heldAnnotation]
		if node.Canary {
			node.Tried = turns.ParseTried(row.Object.Annotations[canaryTriedAnnotation])
		}
		for _, failed := range []string{failedAnnotation, failedSystemAnnotation} {
			if text, ok := row.Object.Annotations[failed]; ok {
				node.Failures = append(node.Failures, text)
			}
		}
		if rackLabel != "" {
			node.Rack = row.Object.Labels[rackLabel]
		}
		fleet = append(fleet, node)
	}
	return fleet, nil
}
