package loop

import (
	"slices"
	"testing"

	"github.com/loam-os/loam/agent/health"
)

func TestLogOfTheUnitAtFaultIsQuoted(t *testing.T) {
	const failed = "unit a.service failed: exit-code, exit code 3"
	const quoted = failed + "; its log ends: no such file: /etc/b"
	w, cluster := newFakeNode(), &recorder{}
	w.text, w.watched, w.cluster = "one", true, cluster
	w.logged = map[string]string{"a.service": "no such file: /etc/b"}
	run(t, w, func(wait func()) {
		w.verdict = health.Verdict{Word: health.Good}
		w.units <- "a.service"
		wait()

		w.fails()
		w.units <- "a.service"
		wait()
		if s := w.last(); s.Error == nil || s.Error.Problem != quoted {
			t.Errorf("a unit that fails by itself: %+v", s.Error)
		}
		read := len(w.ages)
		w.units <- "a.service"
		wait()
		if len(w.ages) != read {
			t.Error("its log is read again although it has not failed again")
		}

		w.text = "two"
		w.source <- struct{}{}
		wait()
		w.verdict = health.Verdict{Word: health.Bad, Unit: "a.service", Reason: failed}
		w.units <- "a.service"
		wait()
		s := w.last()
		want := "generation " + s.RevertedFrom + " was taken back: " + quoted
		if s.Error == nil || s.Error.Problem != want || s.Error.Unit != "a.service" {
			t.Errorf("a change that is taken back: %+v", s.Error)
		}
	})
}

func TestEventQuotesTheLogOfAUnitThatIsNotWell(t *testing.T) {
	w, cluster := newFakeNode(), &recorder{}
	w.text, w.watched, w.cluster = "one", true, cluster
	w.logged = map[string]string{"a.service": "no such file: /etc/b"}
	const how = "unit a.service does not stay up: systemd has restarted it 3 times"
	w.verdict = health.Verdict{
		Word:   health.Good,
		Reason: how,
		Unwell: []health.Unwell{{Unit: "a.service", How: how}},
	}
	run(t, w, func(wait func()) {
		w.units <- "a.service"
		wait()
	})

	want := []string{"UnitNotWell: " + how + "; its log ends: no such file: /etc/b"}
	if !slices.Equal(cluster.events, want) {
		t.Errorf("events %q", cluster.events)
	}
}
