package drain

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// poll is how often a drain looks at the Node and its pods.
	poll = 5 * time.Second

	// atOnce is how many pods are evicted concurrently.
	atOnce = 8

	// named is how many of the pods that are left a [Result] explains.
	named = 5
)

// State is what a node knows when it decides on its next step.
type State struct {
	Policy Policy
	Now    time.Time

	// Over says that the change is over or given up, so the Node is released.
	Over bool

	// Node is nil if it has to be read.
	Node *core.Node

	// Pods are the pods of the Node, valid if Listed.
	Pods   []core.Pod
	Listed bool

	// Tries are the last attempts to evict pods.
	Tries map[types.UID]Try
}

// Kind is a kind of [Step].
type Kind string

const (
	// Read reads the Node, List its pods.
	Read Kind = "read"
	List Kind = "list"
	// Cordon and Uncordon patch the Node with its record, Report patches its status.
	Cordon   Kind = "cordon"
	Uncordon Kind = "uncordon"
	Report   Kind = "report"
	// Evict evicts Pods, Wait waits until Until. What was seen is old then.
	Evict Kind = "evict"
	Wait  Kind = "wait"
	// Done ends with Result.
	Done Kind = "done"
)

// Step is what to do next.
type Step struct {
	Kind   Kind
	Patch  []byte
	Pods   []core.Pod
	Until  time.Time
	Result Result
}

// Next returns the next step.
func Next(s State) Step {
	if s.Node == nil {
		return Step{Kind: Read}
	}
	r, begun := recordOf(s.Node)
	switch {
	case s.Over:
		return s.release(r, begun)
	case begun && !s.Node.Spec.Unschedulable:
		return postpone(Result{Postponed: "an operator has uncordoned the Node"})
	case r.Since.After(s.Now):
		// The clock was set back. By the record, the drain would last as long as the clock
		// was ahead.
		return Step{Kind: Cordon, Patch: againPatch(s.Node, r, s.Now)}
	case !s.Listed:
		return Step{Kind: List}
	}

	selected := Select(s.Pods, s.Policy)
	switch {
	case len(selected.Refused) > 0:
		return refuse(selected.Refused)
	case !begun:
		return Step{Kind: Cordon, Patch: cordonPatch(s.Node, s.Now)}
	}

	want := draining
	if len(selected.Evict) == 0 {
		want = drained
	}
	if patch := conditionPatch(s.Node, want, s.Now); patch != nil {
		return Step{Kind: Report, Patch: patch}
	}
	if len(selected.Evict) == 0 {
		return Step{Kind: Done}
	}
	return s.evict(selected.Evict, r)
}

// evict evicts the pods that are due. A drain that has taken too long tries each
// pod once more, if only to learn what keeps it.
func (s State) evict(pods []core.Pod, r record) Step {
	deadline := r.Since.Add(s.Policy.Timeout)
	isLate := !s.Now.Before(deadline)
	until := s.Now.Add(poll)
	if !isLate && deadline.Before(until) {
		until = deadline
	}

	var due []core.Pod
	for _, p := range pods {
		try, tried := s.Tries[p.UID]
		switch {
		case p.DeletionTimestamp != nil:
		case !tried, !isLate && !s.Now.Before(try.Again):
			due = append(due, p)
		case try.Again.Before(until):
			until = try.Again
		}
	}

	switch {
	case len(due) > 0:
		return Step{Kind: Evict, Pods: due[:min(len(due), atOnce)]}
	case isLate:
		return s.giveUp(pods)
	}
	return Step{Kind: Wait, Until: until}
}

// giveUp postpones a drain that has taken too long.
func (s State) giveUp(pods []core.Pod) Step {
	var r Result
	var problems []string
	for _, p := range pods {
		try := s.Tries[p.UID]
		r.Pods = append(r.Pods, nameOf(p))
		problems = append(problems, nameOf(p)+": "+cmp.Or(try.Problem, "has not ended yet"))
		if try.Budget != "" {
			r.Budgets = append(r.Budgets, try.Budget)
		}
	}

	slices.Sort(r.Pods)
	slices.Sort(r.Budgets)
	r.Budgets = slices.Compact(r.Budgets)
	r.Postponed = fmt.Sprintf("%s left after %s: %s",
		count(len(pods)), s.Policy.Timeout, shorten(problems))
	return postpone(r)
}

// refuse postpones a drain that the policy does not allow.
func refuse(pods []Refused) Step {
	var r Result
	var problems []string
	for _, p := range pods {
		r.Pods = append(r.Pods, p.Pod)
		problems = append(problems, p.Pod+": "+p.Why)
	}
	r.Postponed = fmt.Sprintf("the policy keeps %s: %s", count(len(pods)), shorten(problems))
	return postpone(r)
}

// release removes the conditions, and then the record with the cordon.
func (s State) release(r record, begun bool) Step {
	if patch := conditionPatch(s.Node, nil, s.Now); patch != nil {
		return Step{Kind: Report, Patch: patch}
	}
	if begun {
		return Step{Kind: Uncordon, Patch: uncordonPatch(s.Node, r)}
	}
	return Step{Kind: Done}
}

func postpone(r Result) Step { return Step{Kind: Done, Result: r} }

func count(pods int) string {
	if pods == 1 {
		return "1 pod"
	}
	return fmt.Sprintf("%d pods", pods)
}

// shorten joins the first few problems.
func shorten(problems []string) string {
	text := strings.Join(problems[:min(named, len(problems))], "; ")
	if more := len(problems) - named; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
