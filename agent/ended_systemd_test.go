package agent

import (
	"testing"

	"github.com/loam-os/loam/test/container"
)

// TestIsToldToStop asks a real systemd while an agent that crashed, or is stopped,
// has its ExecStopPost=.
func TestIsToldToStop(t *testing.T) { container.Run(t, toldToStop) }

func toldToStop(t *testing.T, c *container.Container) {
	const name = "loam-agent.service"
	systemd := c.Connect(t)
	root := c.OpenRoot(t)
	write(t, root, "etc/systemd/system/"+name, `[Service]
Restart=always
ExecStart=sleep infinity
ExecStopPost=sleep infinity
`)
	if err := systemd.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := systemd.Start(t.Context(), name); err != nil {
		t.Fatal(err)
	}

	ends := func() {
		eventually(t, "it ends", func() bool {
			states, err := systemd.Show(t.Context(), []string{name})
			return err == nil && states[0].Sub == "stop-post"
		})
	}
	socket := c.Socket

	c.Command(t, "systemctl", "kill", "--kill-whom=main", "--signal=KILL", name)
	ends()
	if IsToldToStop(t.Context(), socket) {
		t.Error("a crash is taken for a stop")
	}

	c.Command(t, "systemctl", "stop", "--no-block", name)
	if !IsToldToStop(t.Context(), socket) {
		t.Error("a stop is taken for a crash")
	}
	write(t, root, "sys/fs/cgroup/system.slice/"+name+"/cgroup.kill", "1")
}
