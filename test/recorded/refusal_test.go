package recorded

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/cluster"
	"github.com/loam-os/loam/test/files"
	"github.com/loam-os/loam/test/units"
)

// sick is a systemd whose units fail while a file of the node says "bad".
type sick struct {
	*units.Fake
	file func() string
}

func (s *sick) Show(ctx context.Context, names []string) ([]unit.State, error) {
	all, err := s.Fake.Show(ctx, names)
	text, _ := os.ReadFile(s.file())
	for i := range all {
		if string(text) == "bad" {
			all[i].Active = "failed"
			all[i].Sub = "failed"
			all[i].Result = "exit-code"
			all[i].ExitCode = 3
		}
	}
	return all, err
}

// conditioned waits until the condition of the Node's units is that.
func (w *fixture) conditioned(value, reason string) {
	w.Helper()
	w.nodeIs("conditioned", func(n object) bool {
		return slices.Contains(n.Status.Conditions, condition{"SystemdUnitsReady", value, reason})
	})
}

// tellsOf waits until the node has reported an Event with that reason whose
// text begins and ends as given.
func (w *fixture) tellsOf(reason, begin, end string) {
	w.Helper()
	w.await("event "+reason, func() error {
		said, err := w.events(reason)
		is := func(text string) bool {
			return strings.HasPrefix(text, begin) && strings.HasSuffix(text, end)
		}
		if err == nil && !slices.ContainsFunc(said, is) {
			err = fmt.Errorf("%q", said)
		}
		return err
	})
}

// TestTheClusterHearsOfAConfigurationThatIsNotRun: Gardener waits for the
// checksum and looks at the condition, so both have to say why.
func TestTheClusterHearsOfAConfigurationThatIsNotRun(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.adjust = func(n *Node) {
		s := &sick{w.systemd, func() string { return w.onNode("etc/a") }}
		n.asks(s)
	}

	const wrong = "  - path: etc/b\n    content: {inline: {data: x}}\n"

	t.Run("the first, once there is a Node", func(*testing.T) {
		w.says(osc("one") + wrong)
		w.start(files.Dir(w.TB), w.BootstrapToken(w.TB))
		w.approve()
		w.addNode()
		w.tells("OSCInvalid",
			"Warning Secret kube-system/gardener-node-agent-pool:15: spec.files[1].path: "+
				"\"etc/b\" is not absolute; hint: begin it with /")

		w.conditioned("False", "OSCInvalid")
	})

	w.becomes(osc("one"))
	w.conditioned("True", "AllUnitsHealthy")

	t.Run("a wrong document", func(t *testing.T) {
		w.says(osc("two") + wrong + wrong)
		w.conditioned("False", "OSCInvalid")

		w.await("both events", func() error {
			said, err := w.events("OSCInvalid")
			if err == nil && len(said) != 2 {
				err = fmt.Errorf("%q", said)
			}
			return err
		})

		w.becomes(osc("three"))
		w.conditioned("True", "AllUnitsHealthy")
	})

	t.Run("a document with a missing reference", func(t *testing.T) {
		w.says(osc("three") + strings.Replace(referring, "bundle.crt", "none", 1))
		w.tellsOf("OSCUnavailable", "Warning ", "")
		w.conditioned("False", "OSCUnavailable")
		w.becomes(osc("four"))
		w.conditioned("True", "AllUnitsHealthy")
	})

	t.Run("a document that was withdrawn", func(t *testing.T) {
		w.says(osc("bad"))
		w.tellsOf("OSCReverted",
			"Warning generation ", " was taken back: unit a.service failed: exit-code, "+
				"exit code 3; "+
				"hint: `loam why` shows its log; change it, or try it again with `loam apply`")

		w.conditioned("False", "OSCReverted")
		w.still("etc/a", "four")
		w.becomes(osc("five"))
		w.conditioned("True", "AllUnitsHealthy")
	})

	t.Run("a document that an operator does not want", func(t *testing.T) {
		if _, err := w.node.requests.Rollback(t.Context(), control.RollbackRequest{}); err != nil {
			t.Fatal(err)
		}

		w.tellsOf("OSCHeld", "Warning configuration ",
			" is held by an operator: rolled back by the operator; hint: `loam apply` ends that")
		w.conditioned("False", "OSCHeld")

		if _, err := w.node.requests.Apply(t.Context(), control.ApplyRequest{}); err != nil {
			t.Fatal(err)
		}

		w.conditioned("True", "AllUnitsHealthy")
	})
}
