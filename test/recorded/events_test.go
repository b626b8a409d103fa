package recorded

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/loam-os/loam/test/cluster"
)

// events returns the Events of the node with that reason, in any order.
func (w *fixture) events(reason string) ([]string, error) {
	text, err := w.Do("GET", "/api/v1/events?fieldSelector=reason%3D"+reason, "")
	if err != nil {
		return nil, err
	}

	var list struct {
		Items []struct{ Type, Message string }
	}

	err = json.Unmarshal(text, &list)
	var said []string
	for _, e := range list.Items {
		said = append(said, e.Type+" "+e.Message)
	}

	return said, err
}

// tells waits until the node has reported that Event.
func (w *fixture) tells(reason, want string) {
	w.Helper()
	w.await("event "+reason+" "+want, func() error {
		said, err := w.events(reason)
		if err == nil && !slices.Contains(said, want) {
			err = fmt.Errorf("%q", said)
		}
		return err
	})
}

// tellsStart waits until a node has reported an Event that begins with want.
func (w *fixture) tellsStart(reason, want string) {
	w.Helper()
	w.await("event "+reason+" "+want, func() error {
		said, err := w.events(reason)
		if err == nil && !slices.ContainsFunc(said, func(s string) bool {
			return strings.HasPrefix(s, want)
		}) {
			err = fmt.Errorf("%q", said)
		}
		return err
	})
}

func TestJobsOfAChangeAreReported(t *testing.T) {
	t.Parallel()
	w := newFixture(t, cluster.Options{Controllers: true})
	w.join(sized(1, 3, 1, "one"))
	w.becomes(sized(1, 3, 1, "two"))
	w.tells("SystemDUnitRestart",
		"Normal restarted unit-000.service, unit-001.service, unit-002.service")
	w.becomes(sized(1, 1, 1, "two"))
	w.tells("SystemDUnitStop", "Normal stopped unit-001.service, unit-002.service")
	w.becomes(sized(1, 2, 1, "two"))
	w.tells("SystemDUnitStart", "Normal started unit-001.service")
}
