package drain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// fakeAPI is an API server with one Node. Its pods end as soon as they are
// evicted.
type fakeAPI struct {
	mu       sync.Mutex
	node     *core.Node
	pods     []core.Pod
	requests []string

	// refuse returns why a pod is not evicted. before is called before a request.
	refuse func(name string) error
	before func(request string)

	// ahead is how far the clock is ahead.
	ahead time.Duration

	// cut fails this request, and all after it, counted from 1. If lost, it
	// takes effect.
	cut  int
	lost bool
}

var (
	errCut = errors.New("the agent was killed")
	nodes  = schema.GroupResource{Resource: "nodes"}
)

func newAPI(pods ...core.Pod) *fakeAPI {
	return &fakeAPI{
		node: &core.Node{ObjectMeta: meta.ObjectMeta{Name: "me", ResourceVersion: "1"}},
		pods: pods,
	}
}

// request records a request and returns whether it takes effect, and its error.
func (f *fakeAPI) request(name string) (bool, error) {
	if f.before != nil {
		f.before(name)
	}
	f.requests = append(f.requests, name)
	if n := len(f.requests); f.cut > 0 && n >= f.cut {
		return f.lost && n == f.cut, errCut
	}
	return true, nil
}

func (f *fakeAPI) Now() time.Time { return time.Now().Add(f.ahead) }

func (f *fakeAPI) Node(context.Context) (*core.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.request("read")
	return f.node.DeepCopy(), err
}

func (f *fakeAPI) Pods(context.Context) ([]core.Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.request("list")
	return slices.Clone(f.pods), err
}

func (f *fakeAPI) PatchNode(_ context.Context, patch []byte) (*core.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	name := fmt.Sprintf("patch %s", patch)
	does, err := f.request(name)
	if !does {
		return nil, err
	}

	var p nodePatch
	if err := json.Unmarshal(patch, &p); err != nil {
		return nil, err
	}
	if p.Metadata.ResourceVersion != f.node.ResourceVersion {
		return nil, apierrors.NewConflict(nodes, "me", errors.New("it has changed"))
	}
	f.apply(p)
	return f.node.DeepCopy(), err
}

func (f *fakeAPI) PatchStatus(_ context.Context, patch []byte) (*core.Node, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	does, err := f.request("status")
	if !does {
		return nil, err
	}

	var p nodePatch
	if err := json.Unmarshal(patch, &p); err != nil {
		return nil, err
	}
	f.apply(p)
	return f.node.DeepCopy(), err
}

// nodePatch is what a drain patches, as a merge patch and as a strategic one.
type nodePatch struct {
	Metadata struct {
		ResourceVersion string
		Annotations     map[string]*string
	}
	Spec   *struct{ Unschedulable *bool }
	Status struct {
		Conditions []struct {
			core.NodeCondition
			Patch string `json:"$patch"`
		}
	}
}

// apply applies a patch as an API server does.
func (f *fakeAPI) apply(p nodePatch) {
	n := f.node.DeepCopy()
	for key, value := range p.Metadata.Annotations {
		delete(n.Annotations, key)
		if value != nil {
			meta.SetMetaDataAnnotation(&n.ObjectMeta, key, *value)
		}
	}
	if p.Spec != nil {
		n.Spec.Unschedulable = p.Spec.Unschedulable != nil && *p.Spec.Unschedulable
	}
	for _, c := range p.Status.Conditions {
		n.Status.Conditions = slices.DeleteFunc(n.Status.Conditions,
			func(old core.NodeCondition) bool { return old.Type == c.Type })
		if c.Patch != "delete" {
			n.Status.Conditions = append(n.Status.Conditions, c.NodeCondition)
		}
	}
	f.node = n
	f.touch()
}

// touch makes the Node another version.
func (f *fakeAPI) touch() {
	version, _ := strconv.Atoi(f.node.ResourceVersion)
	f.node.ResourceVersion = strconv.Itoa(version + 1)
}

func (f *fakeAPI) Evict(_ context.Context, pod *core.Pod) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	does, err := f.request("evict " + pod.Name)
	if !does {
		return err
	}
	if f.refuse != nil {
		if err := f.refuse(pod.Name); err != nil {
			return err
		}
	}

	f.pods = slices.DeleteFunc(slices.Clone(f.pods),
		func(p core.Pod) bool { return p.UID == pod.UID })
	return err
}

// budgetError is the answer of a real API server
// (k8s.io/kubernetes, pkg/registry/core/pod/storage/eviction.go).
func budgetError(budget string, seconds int) error {
	err := apierrors.NewTooManyRequests(
		"Cannot evict pod as it would violate the pod's disruption budget.", seconds)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, meta.StatusCause{
		Type: policy.DisruptionBudgetCause,
		Message: "The disruption budget " + budget +
			" needs 2 healthy pods and has 2 currently",
	})
	return err
}

// conditions returns the types of the conditions that are True.
func (f *fakeAPI) conditions() []string {
	var kinds []string
	for _, c := range f.node.Status.Conditions {
		if c.Status == core.ConditionTrue {
			kinds = append(kinds, string(c.Type))
		}
	}
	return kinds
}
