package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/loam-os/loam/agent/turns"
)

// keptHalts returns the configurations of a ledger that stay halted, apart from the
// present one.
func keptHalts(l turns.Ledger) []Halt {
	var all []Halt
	for _, target := range slices.Sorted(maps.Keys(l.Halts)) {
		if !strings.HasPrefix(l.Target, target) {
			all = append(all, Halt{Target: target, Why: l.Halts[target]})
		}
	}
	return all
}

// Resumes says how resume lets a pool go on that is paused or halted. It takes two for one
// that is both, see [turns.Ledger.Resume].
func Resumes(pool string, l turns.Ledger) string {
	isHalted := len(l.Halts) > 0 ||
		slices.ContainsFunc(rolloutsOf(l), func(r turns.Rollout) bool { return r.Halted != "" })
	if l.State == turns.Paused && isHalted {
		return fmt.Sprintf("`loamctl rollout resume %s` ends the pause and, once more, what is halted",
			pool)
	}
	return fmt.Sprintf("`loamctl rollout resume %s` lets it go on", pool)
}

// mayStand reports whether the nodes may take no turns although the ledger says that its
// rollouts run, which depends on the policy. No policy takes a turn for overdue before a
// minute.
func mayStand(l turns.Ledger, now time.Time) bool {
	isOld := func(h turns.Holder) bool { return now.Sub(h.Since) > time.Minute }
	hasFailed := func(r turns.Rollout) bool { return r.Failed > 0 && r.Halted == "" }
	return slices.ContainsFunc(holders(l), isOld) || slices.ContainsFunc(rolloutsOf(l), hasFailed)
}

// overdue returns the machines that have their turn for longer than the policy allows, as
// of now. As for the nodes, a turn counts while its Node is there and, if it was restored,
// has its mark. marks are those of the Nodes.
func overdue(
	p turns.Policy, l turns.Ledger, marks map[string]string, now time.Time,
) []string {
	var late []string
	for _, h := range holders(l) {
		mark, counts := marks[h.Node]
		if _, isRestored := l.Restored[h.Machine]; isRestored {
			counts = isMarkOf(mark, h.Machine)
		}
		if counts && now.Sub(h.Since) > p.Overdue[h.Class] {
			late = append(late, h.Machine)
		}
	}
	return late
}

// outOfBounds returns why nodes take no turns although the ledger says that its rollouts
// run: more nodes have failed, or are late, than the policy allows now.
func outOfBounds(p turns.Policy, l turns.Ledger, pool string, late []string) []string {
	names := strings.Join(late[:min(3, len(late))], ", ")
	if len(late) > 3 {
		names += ", ..."
	}
	if len(late) > p.MaxFailures {
		return []string{
			fmt.Sprintf("no node may begin: %d have their turn for too long, and maxFailures is %d: %s",
				len(late), p.MaxFailures, names),
			fmt.Sprintf("`loamctl rollout forget %s MACHINE` takes the turn of a machine that is gone",
				pool),
		}
	}

	var all []string
	for _, r := range rolloutsOf(l) {
		if r.Halted != "" || r.Failed+len(late) <= p.MaxFailures {
			continue
		}
		what := "the configuration"
		if r.Version != "" {
			what = "version " + line(r.Version)
		}
		text := fmt.Sprintf("no node may begin with %s: %d have failed", what, r.Failed)
		if len(late) > 0 {
			text += fmt.Sprintf(", %d have their turn for too long (%s)", len(late), names)
		}
		all = append(all, fmt.Sprintf("%s, and maxFailures is %d", text, p.MaxFailures))
	}
	switch {
	case len(all) == 0:
	case l.State == turns.Paused:
		all = append(all, fmt.Sprintf("`loamctl rollout resume %s` ends the pause and, once more, lets "+
			"as many more fail", pool))
	default:
		all = append(all, fmt.Sprintf("`loamctl rollout resume %s` lets as many more fail", pool))
	}
	return all
}

// rolloutsOf returns the rollout of the configuration, and those of systems.
func rolloutsOf(l turns.Ledger) []turns.Rollout {
	all := []turns.Rollout{l.Rollout}
	for _, target := range slices.Sorted(maps.Keys(l.Systems)) {
		all = append(all, l.Systems[target])
	}
	return all
}
