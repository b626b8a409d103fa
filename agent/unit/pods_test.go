package unit_test

import (
	"os"
	"path"
	"strconv"
	"strings"
	"testing"

	"github.com/godbus/dbus/v5"

	"github.com/loam-os/loam/test/container"
)

// TestPodsLeaveThreads starts the slice of the pods as the kubelet does: the image's
// limit of threads holds for it.
func TestPodsLeaveThreads(t *testing.T) { container.Run(t, podsLeaveThreads) }

func podsLeaveThreads(t *testing.T, c *container.Container) {
	const dropIn = "usr/lib/systemd/system/kubepods.slice.d/10-loam.conf"
	root := c.OpenRoot(t)
	text, err := os.ReadFile("../../mkosi/mkosi.extra/" + dropIn)
	if err != nil {
		t.Fatal(err)
	}
	if err := root.MkdirAll(path.Dir(dropIn), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := root.WriteFile(dropIn, text, 0o644); err != nil {
		t.Fatal(err)
	}

	type property struct {
		Name  string
		Value dbus.Variant
	}
	type unit struct {
		Name       string
		Properties []property
	}
	if err := c.Connect(t).Reload(t.Context()); err != nil {
		t.Fatal(err)
	}

	conn, err := dbus.Dial("unix:path=" + c.Socket)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.Auth([]dbus.Auth{dbus.AuthExternal(strconv.Itoa(os.Getuid()))}); err != nil {
		t.Fatal(err)
	}
	systemd := conn.Object("org.freedesktop.systemd1", "/org/freedesktop/systemd1")
	calls := make(chan *dbus.Call, 2)
	systemd.Go("org.freedesktop.systemd1.Manager.StartTransientUnit", 0, calls,
		"kubepods.slice", "replace", []property{{"Description", dbus.MakeVariant("pods")}}, []unit{})
	systemd.Go("org.freedesktop.DBus.Peer.Ping", 0, calls) // Wakes sd-bus: see awake in dial.go.
	for range 2 {
		if call := <-calls; call.Err != nil && call.Method != "org.freedesktop.DBus.Peer.Ping" {
			t.Fatal(call.Err)
		}
	}

	out := c.Command(t, "sh", "-c", "systemctl show -P Transient -P TasksMax kubepods.slice; "+
		"cat /proc/sys/kernel/pid_max /proc/sys/kernel/threads-max")
	lines := strings.Fields(out)
	if len(lines) != 4 || (lines[0] != "yes" && lines[1] != "yes") {
		t.Fatalf("%s", out)
	}
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		if err != nil {
			t.Fatalf("%s: %v", out, err)
		}
		return n
	}
	tasks := lines[0]
	if tasks == "yes" {
		tasks = lines[1]
	}
	most := min(number(lines[2]), number(lines[3]))
	if got := number(tasks); got < most*8/10 || got > most*9/10 {
		t.Errorf("pods may have %d of %d threads, want nine of ten", got, most)
	}
}
