package drain

import (
	"cmp"
	"slices"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Selection is which pods of a node a drain is about.
type Selection struct {
	// Evict are the pods that must be gone, in the order of their evictions:
	// those with the lowest priority first, as a kubelet shuts down.
	Evict []core.Pod

	// Refused are the pods that the policy does not let be evicted, with the
	// reason. One of them is enough not to begin.
	Refused []Refused
}

// Refused is a pod that may not be evicted.
type Refused struct{ Pod, Why string }

// Select returns which pods a drain evicts. The pods of a DaemonSet come back at
// once and mirror pods cannot be evicted, so both stay. Finished pods go: that
// loses nothing but their logs, and kubectl does the same. As a node cannot see
// DaemonSets, it keeps also the pods of one that was deleted, which kubectl would
// refuse.
func Select(pods []core.Pod, p Policy) Selection {
	var s Selection
	for _, pod := range pods {
		switch why := p.refuses(pod); {
		case stays(pod):
		case why != "":
			s.Refused = append(s.Refused, Refused{nameOf(pod), why})
		default:
			s.Evict = append(s.Evict, pod)
		}
	}

	slices.SortFunc(s.Evict, func(a, b core.Pod) int {
		return cmp.Or(cmp.Compare(priority(a), priority(b)), cmp.Compare(nameOf(a), nameOf(b)))
	})
	slices.SortFunc(s.Refused, func(a, b Refused) int { return cmp.Compare(a.Pod, b.Pod) })
	return s
}

func stays(pod core.Pod) bool {
	if _, isMirror := pod.Annotations[core.MirrorPodAnnotationKey]; isMirror {
		return true
	}
	controller := meta.GetControllerOf(&pod)
	return controller != nil && controller.APIVersion == "apps/v1" &&
		controller.Kind == "DaemonSet" && !isFinished(pod)
}

// refuses returns why the policy keeps a pod from being evicted, "" if it does
// not.
func (p Policy) refuses(pod core.Pod) string {
	hasEmptyDir := slices.ContainsFunc(pod.Spec.Volumes,
		func(v core.Volume) bool { return v.EmptyDir != nil })
	switch {
	case isFinished(pod):
		return ""
	case hasEmptyDir && !p.DeleteEmptyDirData:
		return "has data in an emptyDir"
	case meta.GetControllerOf(&pod) == nil && !p.Force:
		return "has no controller that would create it again"
	}
	return ""
}

func isFinished(pod core.Pod) bool {
	return pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
}

func priority(pod core.Pod) int32 {
	if pod.Spec.Priority == nil {
		return 0
	}
	return *pod.Spec.Priority
}

func nameOf(pod core.Pod) string { return pod.Namespace + "/" + pod.Name }
