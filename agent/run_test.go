package agent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/console"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/test/container"
)

// processVariable makes the test binary the agent: systemd in the container
// starts it so.
const processVariable = "LOAM_AGENT_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(processVariable) == "" {
		os.Exit(m.Run())
	}
	if err := runAgent(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runAgent() error {
	log, err := zap.NewDevelopment()
	if err != nil {
		return err
	}
	env := NodeEnv(log)
	env.Consoles, err = console.Open("/srv", "/srv/active")
	if err != nil {
		return err
	}
	return Run(context.Background(), env)
}

const agentUnit = `[Unit]
DefaultDependencies=no
[Service]
Type=notify
ImportCredential=loam.*
Environment=LOAM_AGENT_PROCESS=1
ExecStart=/usr/bin/agent.test
Restart=always
`

const machineYAML = `apiVersion: loam.dev/v1alpha1
kind: Machine
hostname: node-1
source:
  file:
    path: /srv/config.yaml
contents:
  directory:
    path: /srv/contents
debugShell: [tty9]
`

const document1 = `apiVersion: extensions.gardener.cloud/v1alpha1
kind: OperatingSystemConfig
spec:
  files:
  - path: /etc/app/app.conf
    permissions: 420
    content: {inline: {data: "one\n"}}
  units:
  - name: app.service
    filePaths: [/etc/app/app.conf]
    content: |
      [Service]
      ExecStart=sleep infinity
      [Install]
      WantedBy=multi-user.target
  - name: other.service
    content: |
      [Service]
      ExecStart=sleep infinity
`

// TestAgentUnderSystemd runs the agent as a service of a real systemd: a first
// configuration, a changed one, a wrong one, and a restart of the agent.
func TestAgentUnderSystemd(t *testing.T) { container.Run(t, underSystemd) }

func underSystemd(t *testing.T, c *container.Container) {
	root := c.OpenRoot(t)
	install(t, root)
	screen := newScreen(t, c)
	systemd := c.Connect(t)
	if err := systemd.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if t.Failed() {
			t.Log(c.Command(t, "journalctl", "--no-pager", "-u", "loam-agent", "-n", "60"))
		}
	}()
	if err := systemd.Start(t.Context(), "loam-agent.service"); err != nil {
		t.Fatal(err)
	}
	first := screen.await(t, c, func(s status.Status) bool {
		return s.Phase == status.Applied &&
			len(s.DebugShells) == 1
	})
	if first.Hostname != "node-1" || first.Files != 3 || len(first.Units) != 2 ||
		first.ImageVersion != "0.1.0" {
		t.Errorf("first status: %+v", first)
	}
	t.Logf("\n%s%s", first.Table(status.View{Width: 79}), first.AppliedLine())

	write(t, root, "srv/config.yaml", strings.Replace(document1, "one", "two", 1))
	second := screen.await(t, c, func(s status.Status) bool {
		return s.Phase == status.Applied &&
			s.Digest != first.Digest
	})
	if second.Units[0].InvocationID == first.Units[0].InvocationID {
		t.Error("app.service reads a changed file and was not restarted")
	}
	if second.Units[1].InvocationID != first.Units[1].InvocationID {
		t.Error("other.service was restarted for nothing")
	}

	behindItsBack(t, c, root, screen)

	write(t, root, "srv/config.yaml", document1+"  unit: []\n")
	bad := screen.await(t, c, func(s status.Status) bool { return s.Phase == status.Failed })
	if bad.Generation == second.Generation || bad.Error == nil || bad.Error.Path != "spec.unit" {
		t.Errorf("with an unknown field: %+v, error %+v", bad, bad.Error)
	}
	t.Logf("\n%s", bad.Table(status.View{Width: 79}))

	if err := root.Remove("srv/config.yaml"); err != nil {
		t.Fatal(err)
	}
	if err := systemd.Restart(t.Context(), "loam-agent.service"); err != nil {
		t.Fatal(err)
	}
	third := screen.await(t, c, func(s status.Status) bool {
		return s.Phase == status.Applied &&
			len(s.DebugShells) == 1
	})
	if third.Generation != bad.Generation ||
		third.Units[0].InvocationID != bad.Units[0].InvocationID ||
		third.AppliedAt != bad.AppliedAt {
		t.Errorf("after a restart without a source: %+v, before %+v", third, bad)
	}
}

// behindItsBack changes what a document refers to, and managed paths: the node
// follows the first and undoes the others.
func behindItsBack(t *testing.T, c *container.Container, root *os.Root, screen screen) {
	t.Helper()
	current, err := root.Readlink("run/loam/current")
	if err != nil {
		t.Fatal(err)
	}

	conf := func() string {
		text, _ := root.ReadFile(current[1:] + "/root/etc/app/secret")
		return string(text)
	}
	if err := root.MkdirAll("srv/contents/secrets/app", 0o755); err != nil {
		t.Fatal(err)
	}

	write(t, root, "srv/contents/secrets/app/key", "secret 1")
	write(
		t,
		root,
		"srv/config.yaml",
		strings.Replace(
			document1,
			"  units:\n",
			"  - path: /etc/app/secret\n    content: {secretRef: {name: app, dataKey: key}}\n  units:\n",
			1,
		),
	)
	screen.await(t, c, func(s status.Status) bool {
		return s.Phase == status.Applied &&
			conf() == "secret 1"
	})
	write(t, root, "srv/contents/secrets/app/key", "secret 2")
	before := screen.await(t, c, func(s status.Status) bool {
		return s.Phase == status.Applied &&
			conf() == "secret 2"
	})
	if before.Drift.Repaired != 0 {
		t.Errorf("its own changes count as drift: %+v", before.Drift)
	}
	if err := root.Remove("etc/app/app.conf"); err != nil {
		t.Fatal(err)
	}

	eventually(
		t,
		"a link that was removed",
		func() bool { _, err := root.Readlink("etc/app/app.conf"); return err == nil },
	)
	// Without the read-only view of a booted image, a write through a link
	// reaches the store.
	err = root.WriteFile(current[1:]+"/root/etc/app/secret", []byte("drift"), 0o600)
	if err != nil {
		t.Fatal(err)
	}

	eventually(t, "content that was written over", func() bool { return conf() == "secret 2" })
	write(t, root, "srv/config.yaml", document1)
	screen.await(t, c, func(s status.Status) bool {
		return s.Phase == status.Applied &&
			conf() == "" && s.Drift.Repaired == 2
	})
}

// eventually waits for what the agent does in its own time.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for tick := time.Tick(20 * time.Millisecond); !holds(); {
		select {
		case <-tick:
		case <-deadline:
			t.Fatalf("%s: not as it should be", what)
		}
	}
}

func install(t *testing.T, root *os.Root) {
	t.Helper()
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()

	program, err := root.OpenFile("usr/bin/agent.test", os.O_CREATE|os.O_WRONLY, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()

	if _, err := io.Copy(program, self); err != nil {
		t.Fatal(err)
	}
	if err := root.MkdirAll("etc/credstore", 0o700); err != nil {
		t.Fatal(err)
	}

	write(t, root, "usr/lib/os-release", "IMAGE_ID=loam-node-os\nIMAGE_VERSION=\"0.1.0\"\n")
	write(t, root, "etc/credstore/loam.machine", machineYAML)
	write(t, root, "srv/config.yaml", document1)
	write(t, root, "usr/lib/systemd/system/loam-agent.service", agentUnit)
	write(
		t,
		root,
		"usr/lib/systemd/system/loam-debug-shell@.service",
		"[Service]\nExecStart=sleep infinity\n",
	)
}

func write(t *testing.T, root *os.Root, name, text string) {
	t.Helper()
	if err := root.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// screen is a console of the container, a FIFO.
type screen struct {
	*bufio.Scanner
}

func newScreen(t *testing.T, c *container.Container) screen {
	t.Helper()
	write(t, c.OpenRoot(t), "srv/active", "console\n")
	name := filepath.Join(c.Root, "srv/console")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}

	f, err := os.OpenFile(name, os.O_RDWR, 0) // with a writer of its own, it does not end
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { f.Close() })
	if err := f.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return screen{bufio.NewScanner(f)}
}

// await reads the console until the status it tells of is wanted.
func (s screen) await(
	t *testing.T,
	c *container.Container,
	wanted func(status.Status) bool,
) status.Status {
	t.Helper()
	var now status.Status
	for s.Scan() {
		text, err := os.ReadFile(c.Root + status.Path)
		if err != nil {
			t.Fatal(err)
		}
		now, err = status.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if wanted(now) {
			return now
		}
	}

	t.Fatalf("the status stays %+v, error %+v", now, now.Error)
	return now
}
