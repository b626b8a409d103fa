package loop

import (
	"testing"

	"github.com/loam-os/loam/agent/generation"
	"github.com/loam-os/loam/hint"
)

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
