package apiserver

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// delete deletes an object if it is as options say, and returns its last version. A
// pod of a node gets the time by which its kubelet is to remove it.
func (s *Server) delete(q request, v *version, options meta.DeleteOptions) (*version, error) {
	if p := options.Preconditions; p != nil {
		if p.UID != nil && *p.UID != v.object.GetUID() {
			return nil, errors.NewConflict(q.kind.groupResource(), q.name, fmt.Errorf(
				"the UID in the precondition (%s) does not match the UID in record (%s)",
				*p.UID, v.object.GetUID()))
		}
		if p.ResourceVersion != nil && *p.ResourceVersion != v.object.GetResourceVersion() {
			return nil, errors.NewConflict(q.kind.groupResource(), q.name, fmt.Errorf(
				"the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s)",
				*p.ResourceVersion, v.object.GetResourceVersion()))
		}
	}

	o := v.object.DeepCopyObject().(Object)
	pod, ok := o.(*core.Pod)
	if !ok || graceOf(pod, options) == 0 {
		return s.drop(q, v), nil
	}
	if pod.DeletionTimestamp != nil {
		return v, nil
	}
	grace := graceOf(pod, options)
	at := meta.NewTime(time.Now().Add(time.Duration(grace) * time.Second).Truncate(time.Second))
	pod.DeletionTimestamp = &at
	pod.DeletionGracePeriodSeconds = &grace
	return s.store(q, v, pod), nil
}

// graceOf returns how many seconds a pod has until it is gone.
func graceOf(p *core.Pod, options meta.DeleteOptions) int64 {
	isOver := p.Status.Phase == core.PodSucceeded || p.Status.Phase == core.PodFailed
	switch {
	case p.Spec.NodeName == "" || isOver:
		return 0
	case options.GracePeriodSeconds != nil:
		return *options.GracePeriodSeconds
	case p.Spec.TerminationGracePeriodSeconds != nil:
		return *p.Spec.TerminationGracePeriodSeconds
	}
	return 30
}

// evict deletes a pod, unless that would violate a PodDisruptionBudget.
func (s *Server) evict(w http.ResponseWriter, q request) error {
	decoded, err := q.decode(&policy.Eviction{}, policy.SchemeGroupVersion.WithKind("Eviction"))
	if err != nil {
		return err
	}
	eviction, ok := decoded.(*policy.Eviction)
	if !ok || eviction.Name != q.name {
		return errors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	v, err := s.object(q)
	if err != nil {
		return err
	}

	pod := v.object.(*core.Pod)
	options := meta.DeleteOptions{}
	if eviction.DeleteOptions != nil {
		options = *eviction.DeleteOptions
	}
	isOver := pod.Status.Phase == core.PodSucceeded || pod.Status.Phase == core.PodFailed
	if !isOver && pod.Status.Phase != core.PodPending && pod.DeletionTimestamp == nil {
		if err := s.useBudget(pod); err != nil {
			return err
		}
	}
	if _, err := s.delete(q, v, options); err != nil {
		return err
	}
	return answer(w, q, http.StatusCreated,
		&meta.Status{Status: meta.StatusSuccess, Code: http.StatusCreated},
		schema.GroupVersion{Version: "v1"})
}

// useBudget takes one disruption of the budget of a pod.
func (s *Server) useBudget(pod *core.Pod) error {
	q := request{kind: kinds["apis/policy/v1/poddisruptionbudgets"], namespace: pod.Namespace}
	var budgets []*version
	for _, v := range s.collection(q).find(selection{
		namespace: pod.Namespace,
		labels:    labels.Everything(),
		fields:    fields.Everything(),
	}) {
		b := v.object.(*policy.PodDisruptionBudget)
		selector, err := meta.LabelSelectorAsSelector(b.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			budgets = append(budgets, v)
		}
	}
	switch len(budgets) {
	case 0:
		return nil
	case 1:
	default:
		return errors.NewInternalError(
			fmt.Errorf("this pod has more than one PodDisruptionBudget, which the eviction subresource does not support"))
	}

	b := budgets[0].object.DeepCopyObject().(*policy.PodDisruptionBudget)
	isHealthy := b.Status.CurrentHealthy >= b.Status.DesiredHealthy && b.Status.DesiredHealthy > 0
	switch {
	case !isReady(pod) && isHealthy:
		return nil
	case b.Status.ObservedGeneration < b.Generation:
		return budgetError(b, 10, fmt.Sprintf(
			"The disruption budget %s is still being processed by the server.", b.Name))
	case b.Status.DisruptionsAllowed < 1:
		return budgetError(b, 0, fmt.Sprintf(
			"The disruption budget %s needs %d healthy pods and has %d currently",
			b.Name, b.Status.DesiredHealthy, b.Status.CurrentHealthy))
	}

	b.Status.DisruptionsAllowed--
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]meta.Time{}
	}
	b.Status.DisruptedPods[pod.Name] = meta.NewTime(time.Now().Truncate(time.Second))
	s.store(q, budgets[0], b)
	return nil
}

func budgetError(b *policy.PodDisruptionBudget, retry int, why string) error {
	err := errors.NewTooManyRequests(
		"Cannot evict pod as it would violate the pod's disruption budget.", retry)
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, meta.StatusCause{
		Type:    policy.DisruptionBudgetCause,
		Message: why,
	})
	return err
}

func isReady(p *core.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == core.PodReady {
			return c.Status == core.ConditionTrue
		}
	}
	return false
}

// store makes o the next version of an object; before is nil for a new one.
func (s *Server) store(q request, before *version, o Object) *version {
	s.number++
	o.SetResourceVersion(strconv.FormatUint(s.number, 10))
	after := &version{object: o, number: s.number}
	write := Write{After: o}
	if before != nil {
		write.Before = before.object
	}
	if s.Watched != nil {
		s.Watched(write)
	}
	s.collection(q).put(change{before: before, after: after})
	return after
}

// drop removes an object.
func (s *Server) drop(q request, v *version) *version {
	s.number++
	o := v.object.DeepCopyObject().(Object)
	o.SetResourceVersion(strconv.FormatUint(s.number, 10))
	last := &version{object: o, number: s.number}
	if s.Watched != nil {
		s.Watched(Write{Before: v.object})
	}
	s.collection(q).put(change{before: v, after: last, deleted: true})
	return last
}

// answerVersion writes a version of an object.
func (q request) answerVersion(w http.ResponseWriter, code int, v *version) error {
	text, err := v.encode(q)
	if err != nil {
		return err
	}
	writeAnswer(w, q, code, text)
	return nil
}
