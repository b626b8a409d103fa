package loop

import (
	"slices"
	"testing"

	"github.com/loam-os/loam/agent/health"
)

// TestLogsOfUnitsStayInTheJournal has units fail and not stay up: the status,
// which goes to the consoles and to the cluster, and its Events say how a unit
// ended, and nothing of its log.
func TestLogsOfUnitsStayInTheJournal(t *testing.T) {
	const failed = "unit a.service failed: exit-code, exit code 3"
	const how = "unit a.service does not stay up: systemd has restarted it 3 times"
	w, cluster := newFakeNode(), &recorder{}
	w.text, w.watched, w.cluster = "one", true, cluster
	w.verdict = health.Verdict{
		Word:   health.Good,
		Reason: how,
		Unwell: []health.Unwell{{Unit: "a.service", How: how}},
	}
	run(t, w, func(wait func()) {
		w.units <- "a.service"
		wait()

		w.fails()
		w.units <- "a.service"
		wait()
		if s := w.last(); s.Error == nil || s.Error.Problem != failed || s.Error.Unit != "a.service" {
			t.Errorf("a unit that fails by itself: %+v", s.Error)
		}
	})
	if want := []string{"UnitNotWell: " + how}; !slices.Equal(cluster.events, want) {
		t.Errorf("events %q", cluster.events)
	}
}
