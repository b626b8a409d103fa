package cluster

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/loam-os/loam/agent/cluster/reach"
	"github.com/loam-os/loam/agent/inplace"
	"github.com/loam-os/loam/agent/status"
)

// A kubelet registers its Node only when it starts. absenceGrace is how long a
// deleted Node may stay away before the kubelet is restarted, absencePause the
// pause before the second restart, which doubles up to absencePauseMax.
const (
	absenceGrace    = 10 * time.Second
	absencePause    = time.Minute
	absencePauseMax = 10 * time.Minute
)

// absence is a Node that was deleted while the node runs. The zero absence is a
// Node that exists, or has never existed.
type absence struct {
	// name is the name of the Node, since the wall clock when it was gone.
	name  string
	since time.Time

	// restarts is how often the kubelet was restarted for it. last is the time
	// since kernel start of the last restart, or of the deletion.
	restarts int
	last     time.Duration
}

// due returns the time since kernel start at which the kubelet is restarted.
func (a absence) due() time.Duration {
	if a.restarts == 0 {
		return a.last + absenceGrace
	}
	pause := absencePause << min(a.restarts-1, 10)
	return a.last + min(pause, absencePauseMax)
}

// problem says what is wrong, "" for nothing.
func (a absence) problem() string {
	gone := fmt.Sprintf("Node %s is gone since %s", a.name, a.since.UTC().Format("15:04:05 MST"))
	switch {
	case a.name == "":
		return ""
	case a.restarts == 0:
		return gone + "; the kubelet is restarted soon, so that it registers it again"
	case a.restarts == 1:
		return gone + "; the kubelet was restarted, so that it registers it again"
	}
	return fmt.Sprintf("%s, and the kubelet does not register it again: `loam logs kubelet`", gone)
}

// absenceController restarts the kubelet until it has registered a deleted Node
// again.
type absenceController struct {
	link     *link
	restarts restarter
}

func (c *absenceController) step(_ context.Context, w *world) (outcome, error) {
	a := &w.absent
	c.link.setProblem("absent", reach.Problem{Text: a.problem()})
	if a.name == "" || !w.nodeKnown || !hasKubelet(w.status) || w.updating != inplace.Nothing {
		return outcome{}, nil
	}

	if w.uptime >= a.due() {
		a.restarts++
		a.last = w.uptime
		c.restarts.run([]string{kubeletUnit}, func() {})
		c.link.setProblem("absent", reach.Problem{Text: a.problem()})
	}

	return outcome{wake: w.now.Add(a.due() - w.uptime)}, nil
}

// hasKubelet reports whether the node runs a kubelet.
func hasKubelet(s status.Status) bool {
	return slices.ContainsFunc(s.Units, func(u status.Unit) bool { return u.Name == kubeletUnit })
}
