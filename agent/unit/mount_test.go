package unit_test

import (
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/durable"
	"github.com/loam-os/loam/test/container"
)

// A disk that is not there takes away what needs it, not the whole node: the image has
// no emergency mode.
func TestAMountThatFailsFailsAlone(t *testing.T) { container.Run(t, mountFails) }

func mountFails(t *testing.T, c *container.Container) {
	const units = "etc/systemd/system/"
	dir := durable.New(c.OpenRoot(t), nil)
	place(t, dir, units+"var-disk.mount",
		"[Mount]\nWhat=nothing\nWhere=/var/disk\nType=ext4\n[Install]\nRequiredBy=local-fs.target\n")
	// That of the image would take the terminal, which is a device of this machine.
	place(t, dir, units+"emergency.service", "[Service]\nType=oneshot\nExecStart=true\n")
	place(t, dir, units+"needs.service", "[Unit]\nRequiresMountsFor=/var/disk\n"+sleeper)
	place(t, dir, units+"other.service", sleeper)
	link(t, dir, units+"local-fs.target.requires/var-disk.mount", "../var-disk.mount")
	if err := c.Connect(t).Reload(t.Context()); err != nil {
		t.Fatal(err)
	}

	systemctl := func(args ...string) string {
		return strings.TrimSpace(c.Command(t, append([]string{"systemctl"}, args...)...))
	}
	if out := systemctl("restart", "local-fs.target"); !strings.Contains(out, "failed") {
		t.Fatalf("a mount of nothing: %s", out)
	}
	if out := systemctl("start", "other.service"); out != "" {
		t.Errorf("start a unit that does not need the mount: %s", out)
	}
	if out := systemctl("start", "needs.service"); !strings.Contains(out, "dependency job") {
		t.Errorf("start a unit that needs the mount: %s", out)
	}

	for unit, want := range map[string]string{
		"var-disk.mount": "failed", "needs.service": "inactive", "emergency.target": "inactive",
		"sysinit.target": "active", "multi-user.target": "inactive", "other.service": "active",
	} {
		if got := property(t, c, unit, "ActiveState"); got != want {
			t.Errorf("%s is %s, want %s", unit, got, want)
		}
	}
}
