package loop

import (
	"context"
	"testing"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/hint"
	"github.com/loam-os/loam/hint/fault"
	"github.com/loam-os/loam/test/units"
)

// TestRestartOfOperatorGoesOnAfterAFailure: what failed has the place of its log.
func TestRestartOfOperatorGoesOnAfterAFailure(t *testing.T) {
	systemd := &units.Fake{Run: func(name, _ string) error {
		if name == "a.service" {
			return units.Exit(3)
		}
		return nil
	}}
	asked := askRestart{Units: []string{"a.service", "b.service"}}
	r := performRestart(t.Context(), worker{units: systemd}, Step{Request: &Request{Ask: asked}})

	const want = "restart a.service: failed (unit is failed/failed, result exit-code, exit code 3)" +
		"\nhint: `loam logs a.service`"
	if r.Err == nil || hint.Text(r.Err) != want || fault.Of(r.Err) != fault.UnitFailed {
		t.Errorf("error %q of code %q, want %q", hint.Text(r.Err), fault.Of(r.Err), want)
	}
	if states, err := systemd.Show(t.Context(), []string{"b.service"}); err != nil ||
		!states[0].Running() {
		t.Errorf("the unit after it is %+v, %v", states, err)
	}
}

// TestRestartIsAnsweredWithTheGeneration asks as an operator does.
func TestRestartIsAnsweredWithTheGeneration(t *testing.T) {
	w := newFakeNode()
	w.text = "one"
	run(t, w, func(func()) {
		o, err := w.requests.Restart(context.Background(),
			control.RestartRequest{Units: []string{"a.service"}})
		if err != nil || o.Result != control.Restarted || o.Generation != w.current.Name() {
			t.Errorf("%+v, %v", o, err)
		}

		_, err = w.requests.Restart(context.Background(),
			control.RestartRequest{Units: []string{"b.service"}})
		if fault.Of(err) != fault.NoSuchUnit {
			t.Errorf("a unit of nobody: %v", err)
		}
	})
}

// TestOperatorRestartsOnlyWhatTheConfigurationStarts: the agent itself restarts any
// unit, such as containerd of the image.
func TestOperatorRestartsOnlyWhatTheConfigurationStarts(t *testing.T) {
	var s State
	s.Current.Generation.Units = []generation.Unit{
		{Name: "kubelet.service"},
		{Name: "old.service", Stopped: true},
		{Name: "greet-somebody@.service"},
	}

	for _, tt := range []struct {
		name string
		ask  askRestart
		want string
	}{
		{"one", askRestart{Units: []string{"kubelet.service"}}, ""},
		{"any, for the agent", askRestart{Units: []string{"containerd.service"}, Any: true}, ""},
		{
			"none if one is of the image",
			askRestart{Units: []string{"kubelet.service", "containerd.service"}},
			"unit containerd.service is not of this node's configuration\n" +
				"hint: `systemctl restart containerd.service` restarts any other",
		},
		{
			"none that is misspelled",
			askRestart{Units: []string{"kubelt.service"}},
			"unit kubelt.service is not of this node's configuration\n" +
				"hint: `loam restart kubelet.service`?",
		},
		{
			"none that is stopped on purpose",
			askRestart{Units: []string{"old.service"}},
			"unit old.service is stopped by the configuration\n" +
				"hint: start it there, and `loam apply`",
		},
		{
			"no template",
			askRestart{Units: []string{"greet-somebody@.service"}},
			"unit greet-somebody@.service is not of this node's configuration\n" +
				"hint: `systemctl restart greet-somebody@.service` restarts any other",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			step, err := tt.ask.admit(s)
			switch {
			case err == nil && tt.want == "":
				if step.Kind != Restart {
					t.Errorf("step %q", step.Kind)
				}
			case err == nil || hint.Text(err) != tt.want:
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}
