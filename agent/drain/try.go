package drain

import (
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ending is how long a pod that was evicted may look as if it was not.
const ending = 30 * time.Second

// Try is the last attempt to evict a pod.
type Try struct {
	// Again is when to try again if the pod has not begun to end.
	Again time.Time

	// Problem is why it was not evicted, "" if it was.
	Problem string

	// Budget is the PodDisruptionBudget that keeps it, as namespace/name, "" if
	// there is no such budget.
	Budget string
}

// TryOf returns the attempt to evict a pod that ended with that error at now.
func TryOf(pod core.Pod, err error, now time.Time) Try {
	switch {
	case err == nil, errors.IsNotFound(err), isNamespaceEnding(pod, err):
		return Try{Again: now.Add(ending)}
	case errors.IsTooManyRequests(err):
		return refusedTry(pod, err, now)
	}
	return Try{Again: now.Add(poll), Problem: err.Error()}
}

// refusedTry returns an attempt that the API server answered with 429. It says
// when to try again, unless a budget is used up: then that depends on other
// pods.
func refusedTry(pod core.Pod, err error, now time.Time) Try {
	t := Try{Again: now.Add(poll), Problem: err.Error()}
	if seconds, ok := errors.SuggestsClientDelay(err); ok && seconds > 0 {
		t.Again = now.Add(time.Duration(seconds) * time.Second)
	}

	cause, ok := errors.StatusCause(err, policy.DisruptionBudgetCause)
	if ok {
		t.Problem = cause.Message
		t.Budget = budgetIn(pod.Namespace, cause.Message)
	}
	return t
}

// budgetIn returns the name of the budget that a cause is about
// (k8s.io/kubernetes, pkg/registry/core/pod/storage/eviction.go). A node may not
// read budgets.
func budgetIn(namespace, message string) string {
	rest, ok := strings.CutPrefix(message, "The disruption budget ")
	name, _, isMore := strings.Cut(rest, " ")
	if !ok || !isMore {
		return ""
	}
	return namespace + "/" + name
}

// isNamespaceEnding reports whether a pod that ends cannot be evicted because
// its namespace ends, too.
func isNamespaceEnding(pod core.Pod, err error) bool {
	return pod.DeletionTimestamp != nil && errors.IsForbidden(err) &&
		errors.HasStatusCause(err, meta.CauseType(core.NamespaceTerminatingCause))
}
