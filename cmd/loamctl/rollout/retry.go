package rollout

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/loam-os/loam/agent/turns"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
)

// Retry lets a Node try once more what has failed there. It returns the ledger, in
// which that failure counts no longer, and why a rollout of it stays halted
// nevertheless, "" if none does. The Node is asked first: its node takes no turn
// before the rollout goes on.
func (r Rollout) Retry(
	ctx context.Context, node string,
) (l turns.Ledger, halted string, err error) {
	l, err = r.Read(ctx)
	if err == nil && l.State == turns.Restoring {
		err = errRestoring
	}
	if err != nil {
		return l, "", err
	}

	all, asked, err := r.askRetry(ctx, l, node)
	if err != nil {
		return l, "", fmt.Errorf("retry on Node %s: %w", node, err)
	}

	mayFail := -1
	p, policyErr := r.policy(ctx)
	if policyErr == nil {
		mayFail = p.MaxFailures
	}
	if len(asked) > 0 {
		l, err = r.Change(ctx, func(l turns.Ledger) (turns.Ledger, error) {
			for _, target := range asked {
				l = turns.Retried(l, target, mayFail)
			}
			return l, nil
		})
	}
	if err != nil {
		return l, "", hint.With(err, "Node %s is asked already; `loamctl rollout resume %s` lets its "+
			"rollout go on", node, r.Pool)
	}
	return l, haltOf(l, all, mayFail, policyErr), nil
}

// haltOf returns why a rollout to one of some targets is halted, "" if none is.
func haltOf(l turns.Ledger, targets []string, mayFail int, policyErr error) string {
	for _, target := range targets {
		rollout := l.Systems[target]
		if target == l.Target {
			rollout = l.Rollout
		}
		switch {
		case rollout.Halted == "":
		case policyErr != nil:
			return fmt.Sprintf("how many nodes may fail is not known: %v", policyErr)
		case rollout.Failed <= mayFail: // A person has halted it.
			return line(rollout.Halted)
		default:
			return fmt.Sprintf("%d nodes have failed", rollout.Failed)
		}
	}
	return ""
}

// askRetry writes into the annotation of a Node what it is to try once more. It
// returns all targets that have failed there, and those that were not asked for
// before.
func (r Rollout) askRetry(
	ctx context.Context, l turns.Ledger, node string,
) (all, asked []string, err error) {
	err = r.editNode(ctx, node, func(annotations map[string]any) (bool, error) {
		all = nil
		asked = nil
		texts := textsOf(annotations)
		before := retriesOf(texts)
		for _, f := range failuresOf(l, texts) {
			all = append(all, f.Target)
			if !slices.Contains(before, f.Target) {
				asked = append(asked, f.Target)
			}
		}
		if len(all) == 0 {
			return false, noFailure(r.Pool, l, texts)
		}
		annotations[retryAnnotation] = strings.Join(append(before, asked...), ",")
		return len(asked) > 0, nil
	})
	if isStatus(err, http.StatusNotFound) {
		err = fault.With(errors.New("there is no such Node"), fault.NoSuchNode)
	}
	return all, asked, err
}

// retriesOf returns the targets that a Node with these annotations is to try once
// more.
func retriesOf(annotations map[string]string) []string {
	var targets []string
	for target := range strings.SplitSeq(annotations[retryAnnotation], ",") {
		if target = strings.TrimSpace(target); target != "" {
			targets = append(targets, target)
		}
	}
	return targets
}

// noFailure is the error for a Node on which nothing has failed that the pool
// still changes to. It says what the Node remembers.
func noFailure(pool string, l turns.Ledger, annotations map[string]string) error {
	var others []string
	for _, key := range []string{failedAnnotation, failedSystemAnnotation} {
		text, ok := annotations[key]
		if !ok {
			continue
		}
		f, err := turns.ParseFailure(text)
		if halt := turns.KeptHalt(l, f.Target); err == nil && f.Version == "" && halt != "" {
			return hint.With(
				fault.With(
					fmt.Errorf("configuration %.12s is halted, also if it has come back: %s", f.Target,
						line(halt)),
					fault.NothingToRetry),
				"%s", Resumes(pool, l))
		}
		what := fmt.Sprintf("%.12s: %s", cmp.Or(f.Version, f.Target), line(f.Why))
		if err != nil {
			what = line(err.Error())
		}
		others = append(others, key+" is of "+what)
	}
	if len(others) == 0 {
		return hint.With(
			fault.With(
				fmt.Errorf("it has neither annotation %s nor %s: nothing has failed there",
					failedAnnotation, failedSystemAnnotation),
				fault.NothingToRetry),
			"`loamctl rollout status %s` names the nodes on which a change has failed", pool)
	}
	return hint.With(
		fault.With(
			fmt.Errorf("pool %s has no rollout of what has failed there: %s", pool,
				strings.Join(others, "; ")),
			fault.NothingToRetry),
		"the nodes go on to another configuration or system by themselves")
}
