package agent

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/container"
)

// driftNode is an agent under a real systemd that has applied a document.
type driftNode struct {
	*container.Container
	root   *os.Root
	screen screen
}

func startDriftNode(t *testing.T, c *container.Container, document string) driftNode {
	t.Helper()
	n := driftNode{c, c.OpenRoot(t), screen{}}
	install(t, n.root)
	write(t, n.root, "srv/config.yaml", document)
	n.screen = newScreen(t, c)
	systemd := c.Connect(t)
	if err := systemd.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if t.Failed() {
			t.Log(c.Command(t, "journalctl", "--no-pager", "-u", "loam-agent", "-n", "60"))
		}
	})
	if err := systemd.Start(t.Context(), "loam-agent.service"); err != nil {
		t.Fatal(err)
	}

	n.screen.await(t, c, func(s status.Status) bool { return s.Phase == status.Applied })
	return n
}

func (n driftNode) status(t *testing.T) status.Status {
	t.Helper()
	text, err := os.ReadFile(n.Root + status.Path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := status.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestLinksBehindManagedPathsAreRepaired takes away, one after the other,
// what a managed link needs to lead to its content.
func TestLinksBehindManagedPathsAreRepaired(t *testing.T) {
	container.Run(t, whatPathsLeadThrough)
}

func whatPathsLeadThrough(t *testing.T, c *container.Container) {
	n := startDriftNode(t, c, document1)

	for _, tt := range []struct{ what, script string }{
		{"the link to the current generation", "rm /run/loam/current"},
		{"that link, to something else", "ln -sfn /tmp /run/loam/current"},
		{"the OS version's link", "rm /var/lib/loam/os/0.1.0/current"},
		{
			"the OS version's link, to nothing",
			"ln -sfn ../../generations/x /var/lib/loam/os/0.1.0/current",
		},
		{"the generation's link to its files", "rm /var/lib/loam/generations/*/root"},
		{"a directory's link in the store", "rm -f /var/lib/loam/store/tree/*/app"},
		{"a file's name in the store", "rm -f /var/lib/loam/store/tree/*/app.conf"},
		{
			"content, cut off through its name",
			"for f in /var/lib/loam/store/tree/*/app.conf; do : >$f; done",
		},
		{"content, cut off in the store", "for f in /var/lib/loam/store/sha256/*; do : >$f; done"},
		{
			// One file, because the agent restores it at once.
			"content, removed from the store",
			"rm $(grep -lx one /var/lib/loam/store/sha256/*)",
		},
		{"all of the store", "mv /var/lib/loam/store /var/lib/loam/gone"},
		{"the managed link itself", "rm /etc/app/app.conf"},
		{"a unit's link", "rm /etc/systemd/system/app.service"},
	} {
		before := n.status(t)
		if out := n.Command(t, "sh", "-ec", tt.script); out != "" {
			t.Fatalf("%s: %s", tt.what, out)
		}
		eventually(t, tt.what, func() bool {
			return n.Command(t, "cat", "/etc/app/app.conf") == "one\n" &&
				n.status(t).Drift.Repaired > before.Drift.Repaired
		})
		if s := n.status(t); s.Phase != status.Applied || s.Generation != before.Generation ||
			s.Units[0].InvocationID != before.Units[0].InvocationID {
			t.Errorf("%s: %+v, error %+v", tt.what, s, s.Error)
		}
	}
}

// TestPathThatIsMountedOverDoesNotHoldUpAChange: such a path cannot be
// replaced, which the status says; a change of another is applied, proves
// itself and stays.
func TestPathThatIsMountedOverDoesNotHoldUpAChange(t *testing.T) {
	container.Run(t, pathMountedOver)
}

func pathMountedOver(t *testing.T, c *container.Container) {
	const file = "  - path: /var/lib/q/file\n    content: {inline: {data: x}}\n  units:\n"
	document := strings.Replace(document1, "  units:\n", file, 1)
	n := startDriftNode(t, c, document)
	n.Command(t, "mount", "--bind", "/usr/lib/os-release", "/var/lib/q/file")
	if err := n.root.Remove("etc/app/app.conf"); err != nil {
		t.Fatal(err)
	}
	n.Command(t, "systemctl", "restart", "loam-agent")
	eventually(t, "the status says which path", func() bool {
		e := n.status(t).Error
		return e != nil && strings.Contains(e.Problem, "/var/lib/q/file")
	})
	eventually(t, "another path is repaired",
		func() bool { return n.Command(t, "cat", "/etc/app/app.conf") == "one\n" })

	write(t, n.root, "srv/config.yaml", strings.Replace(document, "one", "two", 1))
	eventually(t, "a change is applied",
		func() bool { return n.Command(t, "cat", "/etc/app/app.conf") == "two\n" })
	eventually(t, "it has proven itself", func() bool {
		_, err := os.Stat(filepath.Join(n.Root, "var/lib/loam/journal.json"))
		return os.IsNotExist(err)
	})
	if s := n.status(t); n.Command(t, "cat", "/etc/app/app.conf") != "two\n" || s.Error == nil ||
		!strings.Contains(s.Error.Problem, "/var/lib/q/file") {
		t.Errorf("%+v, error %+v", s, s.Error)
	}
	if _, err := os.Stat(filepath.Join(n.Root, "var/lib/loam/held.json")); !os.IsNotExist(err) {
		t.Errorf("something is held: %v", err)
	}
}
