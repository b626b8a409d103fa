package agent

import (
	"os"
	"strings"

	"github.com/loam-os/loam/agent/status"
)

// remember keeps from an earlier run of the agent in this boot when its
// generation was applied, so that it is not announced again.
func (n *node) remember() {
	before := saidBefore(n.root)
	if before.AppliedAt == 0 {
		return
	}
	current, ok, err := n.engine.Current()
	if err == nil && ok && current.Name() == before.Generation {
		n.status.AppliedAt = before.AppliedAt
		if n.Consoles != nil {
			n.Consoles.Announced(before.Generation)
		}
	}
}

// saidBefore is the status that an earlier run of the agent in this boot left,
// the zero Status if none did.
func saidBefore(root *os.Root) status.Status {
	text, err := root.ReadFile(strings.TrimPrefix(status.Path, "/"))
	if err != nil {
		return status.Status{}
	}
	before, err := status.Parse(text)
	if err != nil {
		return status.Status{}
	}
	return before
}
