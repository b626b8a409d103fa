package drain

import (
	"context"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Policy is how a node is drained. The fields are named as the flags of kubectl
// drain.
type Policy struct {
	// Timeout is after how long a drain is postponed.
	Timeout time.Duration

	// Force evicts also pods that no controller creates again.
	Force bool

	// DeleteEmptyDirData evicts also pods with an emptyDir, whose data is lost.
	DeleteEmptyDirData bool
}

// API is the API server as a kubelet reaches it. Errors are those of
// k8s.io/apimachinery/pkg/api/errors.
type API interface {
	// Node returns the node's own Node.
	Node(ctx context.Context) (*core.Node, error)

	// PatchNode applies a JSON merge patch to the own Node, PatchStatus a
	// strategic merge patch to its status. They return the patched Node.
	PatchNode(ctx context.Context, patch []byte) (*core.Node, error)
	PatchStatus(ctx context.Context, patch []byte) (*core.Node, error)

	// Pods returns the pods of the own Node.
	Pods(ctx context.Context) ([]core.Pod, error)

	// Evict evicts one of them by the eviction API. It does not retry.
	Evict(ctx context.Context, pod *core.Pod) error

	// Now is the wall clock.
	Now() time.Time
}

// Result is how a drain ended.
type Result struct {
	// Postponed is why the drain was given up for now, "" if the node is
	// drained. Nothing of the drain is left on the Node then.
	Postponed string

	// Pods are the pods that are left, Budgets the PodDisruptionBudgets that
	// keep them, as namespace/name, sorted.
	Pods, Budgets []string
}

// Drain cordons the Node and evicts its pods. It returns once the node is drained,
// or when that is postponed. It may be called again after an error, and then
// continues.
func Drain(ctx context.Context, api API, policy Policy) (Result, error) {
	result, err := run(ctx, api, State{Policy: policy})
	if err != nil || result.Postponed == "" {
		return result, err
	}

	if err := Release(ctx, api); err != nil {
		return Result{}, err
	}
	return result, nil
}

// Release ends a drain, whether the change succeeded, failed or did not begin. It
// uncordons the Node if Drain cordoned it. It may be called again after an error,
// and of a Node that is not drained.
func Release(ctx context.Context, api API) error {
	_, err := run(ctx, api, State{Over: true})
	return err
}

// run does one step after the other.
func run(ctx context.Context, api API, s State) (Result, error) {
	s.Tries = map[types.UID]Try{}
	for {
		s.Now = api.Now()
		step := Next(s)
		if step.Kind == Done {
			return step.Result, nil
		}
		if err := s.do(ctx, api, step); err != nil {
			return Result{}, err
		}
	}
}

// do does a step and puts the result into s.
func (s *State) do(ctx context.Context, api API, step Step) (err error) {
	switch step.Kind {
	case Read:
		s.Node, err = api.Node(ctx)
	case List:
		s.Pods, err = api.Pods(ctx)
		s.Listed = err == nil
	case Cordon, Uncordon:
		s.Listed = false // Pods may have come before the Node was cordoned.
		s.Node, err = api.PatchNode(ctx, step.Patch)
		if errors.IsConflict(err) {
			s.Node = nil
			return nil
		}
	case Report:
		s.Node, err = api.PatchStatus(ctx, step.Patch)
	case Evict:
		return s.evictAll(ctx, api, step.Pods)
	case Wait:
		s.Node = nil
		s.Listed = false
		return wait(ctx, step.Until.Sub(s.Now))
	}
	return err
}

// evictAll evicts pods side by side.
func (s *State) evictAll(ctx context.Context, api API, pods []core.Pod) error {
	errs := make([]error, len(pods))
	var group sync.WaitGroup
	for i := range pods {
		group.Go(func() { errs[i] = api.Evict(ctx, &pods[i]) })
	}
	group.Wait()

	now := api.Now()
	for i, p := range pods {
		s.Tries[p.UID] = TryOf(p, errs[i], now)
	}
	return ctx.Err()
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
