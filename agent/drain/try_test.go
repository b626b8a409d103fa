package drain_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/loam-os/loam/agent/drain"
)

func TestTryOf(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	ending := newPod("a")
	ending.DeletionTimestamp = new(meta.NewTime(noon))
	namespaceEnds := apierrors.NewForbidden(pods, "a", errors.New("it is being terminated"))
	namespaceEnds.ErrStatus.Details.Causes = []meta.StatusCause{{
		Type: core.NamespaceTerminatingCause,
	}}
	processed := apierrors.NewTooManyRequests("Cannot evict pod", 10)
	processed.ErrStatus.Details.Causes = []meta.StatusCause{{
		Type:    "DisruptionBudget",
		Message: "The disruption budget web is still being processed by the server.",
	}}
	const twoBudgets = "This pod has more than one PodDisruptionBudget, which the eviction " +
		"subresource does not support."

	for _, tt := range []struct {
		name string
		pod  core.Pod
		err  error
		want drain.Try
	}{
		{"evicted", newPod("a"), nil, drain.Try{Again: noon.Add(30 * time.Second)}},
		{"gone", newPod("a"), apierrors.NewNotFound(pods, "a"),
			drain.Try{Again: noon.Add(30 * time.Second)}},
		{"a namespace that ends", ending, namespaceEnds,
			drain.Try{Again: noon.Add(30 * time.Second)}},
		{"a budget that is used up", newPod("a"), budgetError("web", 0), drain.Try{
			Again:   noon.Add(5 * time.Second),
			Problem: "The disruption budget web needs 2 healthy pods and has 2 currently",
			Budget:  "default/web",
		}},
		{"a budget that is not known yet", newPod("a"), processed, drain.Try{
			Again:   noon.Add(10 * time.Second),
			Problem: "The disruption budget web is still being processed by the server.",
			Budget:  "default/web",
		}},
		{"an API server with too much to do", newPod("a"),
			apierrors.NewTooManyRequests("slow down", 3), drain.Try{
				Again:   noon.Add(3 * time.Second),
				Problem: "slow down",
			}},
		{"two budgets", newPod("a"),
			apierrors.NewInternalError(errors.New(twoBudgets)), drain.Try{
				Again:   noon.Add(5 * time.Second),
				Problem: "Internal error occurred: " + twoBudgets,
			}},
		{"a network that is away", newPod("a"), errors.New("connection refused"), drain.Try{
			Again:   noon.Add(5 * time.Second),
			Problem: "connection refused",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := drain.TryOf(tt.pod, tt.err, noon)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("try (-want +got):\n%s", diff)
			}
		})
	}
}
