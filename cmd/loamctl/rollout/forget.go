package rollout

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// errNoTurn means that the ledger has no turn of a machine.
var errNoTurn = errors.New("no turn in the ledger")

// Forget takes the turn of a machine away, and the mark of its Node. It refuses a
// machine that has neither.
func (r Rollout) Forget(ctx context.Context, machine string) (turns.Ledger, error) {
	node := ""
	l, err := r.Change(ctx, func(l turns.Ledger) (turns.Ledger, error) {
		h, ok := turns.TurnOf(l, machine)
		if !ok {
			return l, errNoTurn
		}
		node = h.Node
		return l.Forget(machine), nil
	})
	if errors.Is(err, errNoTurn) {
		l, node, err = leftMark(ctx, r, machine)
	}
	if err != nil {
		return l, err
	}
	return l, r.unmark(ctx, machine, node)
}

// leftMark returns the ledger and the Node that has a mark of a machine without a
// turn. A mark is left if it could not be removed after the turn.
func leftMark(
	ctx context.Context, r Rollout, machine string,
) (l turns.Ledger, node string, err error) {
	l, err = r.Read(ctx)
	if err != nil {
		return l, "", err
	}
	table, err := r.API.Table(ctx, nodesPath, l.Nodes, true)
	if err != nil {
		return l, "", fmt.Errorf("list the Nodes: %w", err)
	}

	for _, row := range table.Rows {
		of := row.Object.Metadata
		if isMarkOf(of.Annotations[markAnnotation], machine) {
			return l, of.Name, nil
		}
	}
	return l, "", noTurn(r.Pool, l, machine)
}

// isMarkOf reports whether a mark is of the turn of a machine.
func isMarkOf(mark, machine string) bool {
	h, err := turns.ParseHolder(mark)
	return err == nil && h.Machine == machine
}

// noTurn is the error for a machine without a turn. It names those that have one.
func noTurn(pool string, l turns.Ledger, machine string) error {
	err := fault.With(fmt.Errorf("machine %s has no turn in pool %s", machine, pool),
		fault.NoSuchTurn)

	var names []string
	for _, h := range holders(l) {
		if h.Node == machine {
			return hint.With(err, "Node %s is machine %s: `loamctl rollout forget %s %s`",
				h.Node, h.Machine, pool, h.Machine)
		}
		names = append(names, h.Machine)
	}

	switch more := len(names) - most; {
	case len(names) == 0:
		return hint.With(err, "no machine of the pool has a turn")
	case more > 0:
		return hint.With(err, "machines with a turn: %s, and %d more",
			strings.Join(names[:most], ", "), more)
	}
	return hint.With(err, "machines with a turn: %s", strings.Join(names, ", "))
}

// unmark removes the mark of a machine from a Node, which may be gone, or marked by
// another machine since.
func (r Rollout) unmark(ctx context.Context, machine, node string) error {
	err := r.editNode(ctx, node, func(annotations map[string]any) (bool, error) {
		mark, _ := annotations[markAnnotation].(string)
		if !isMarkOf(mark, machine) {
			return false, nil
		}
		delete(annotations, markAnnotation)
		return true, nil
	})
	if err != nil && !isStatus(err, http.StatusNotFound) {
		return fmt.Errorf("remove the mark of Node %s: %w", line(node), err)
	}
	return nil
}
