package agent

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/control"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/test/container"
)

// TestResetUnderSystemd resets a node with a real systemd, and has it follow
// its source again.
func TestResetUnderSystemd(t *testing.T) { container.Run(t, resetUnderSystemd) }

func resetUnderSystemd(t *testing.T, c *container.Container) {
	root := c.OpenRoot(t)
	install(t, root)
	document := document1 + `  - name: kubelet.service
    content: |
      [Service]
      ExecStart=sleep infinity
`
	write(t, root, "srv/config.yaml", document)
	for _, dir := range []string{
		"var/lib/gardener-node-agent/credentials", "var/lib/kubelet/pki",
		"var/lib/kubelet/pods/a/volume", "srv/volume",
	} {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, root, "var/lib/gardener-node-agent/credentials/kubeconfig", "secret")
	write(t, root, "var/lib/kubelet/pki/kubelet-client-current.pem", "secret")
	write(t, root, "srv/volume/data", "of a pod")
	// As on a node, what the agent places in /etc is not the image's.
	c.Command(
		t,
		"sh",
		"-c",
		"mkdir -p /run/etc/upper /run/etc/work && mount -t overlay -o lowerdir=/etc,upperdir=/run/etc/upper,workdir=/run/etc/work etc /etc",
	)
	c.Command(t, "mount", "--bind", "/srv/volume", "/var/lib/kubelet/pods/a/volume")
	if text, err := root.ReadFile("var/lib/kubelet/pods/a/volume/data"); err != nil ||
		string(text) != "of a pod" {
		t.Fatalf("mounted: %q %v", text, err)
	}
	screen := newScreen(t, c)
	systemd := c.Connect(t)

	err := errors.Join(
		systemd.Reload(t.Context()), systemd.Start(t.Context(), "loam-agent.service"),
	)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Log(c.Command(t, "journalctl", "--no-pager", "-u", "loam-agent", "-n", "60"))
		}
	}()
	screen.await(t, c, func(s status.Status) bool {
		return s.Phase == status.Applied &&
			len(s.DebugShells) == 1
	})

	client := control.Client{Socket: c.Root + control.Socket}
	if o, err := client.Reset(t.Context()); err != nil || o.Result != control.Reset {
		t.Fatalf("%+v %v", o, err)
	}
	after := screen.await(t, c, func(s status.Status) bool {
		return s.Reset != nil &&
			s.Reset.Done
	})
	t.Logf("\n%s", after.Table(status.View{Width: 79}))
	isReset(t, root, systemd)
	if err := systemd.Restart(t.Context(), "loam-agent.service"); err != nil {
		t.Fatal(err)
	}
	write(t, root, "srv/config.yaml", strings.Replace(document, "one", "two", 1))
	screen.await(t, c, func(s status.Status) bool {
		return s.Reset != nil && s.Reset.Done &&
			s.Generation == ""
	})
	isReset(t, root, systemd)

	if o, err := client.Apply(t.Context(), control.ApplyRequest{}); err != nil ||
		o.Generation == "" {
		t.Errorf("apply: %+v %v", o, err)
	}
	again := screen.await(t, c, func(s status.Status) bool {
		return s.Phase == status.Applied &&
			s.Reset == nil
	})
	if again.Generation[:7] != "000001-" || len(again.Units) != 3 {
		t.Errorf("followed again: %+v", again)
	}
}

func isReset(t *testing.T, root *os.Root, systemd *unit.Systemd) {
	t.Helper()
	states, err := systemd.Show(
		t.Context(),
		[]string{"app.service", "other.service", "kubelet.service"},
	)
	if err != nil {
		t.Fatal(err)
	}

	for _, s := range states {
		if s.Load != "not-found" || s.Running() {
			t.Errorf("%+v", s)
		}
	}

	for _, name := range []string{
		"etc/app",
		"etc/systemd/system/app.service",
		"var/lib/gardener-node-agent/credentials",
		"var/lib/kubelet/pki",
		"var/lib/kubelet/pods",
		"var/lib/loam/os",
	} {
		if _, err := root.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}

	if text, err := root.ReadFile("srv/volume/data"); err != nil || string(text) != "of a pod" {
		t.Errorf("what was mounted has %q: %v", text, err)
	}
}
