package agent

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/loam-os/loam/test/container"
)

// asleepVariable asks the test binary for the uptime of a machine that slept.
const asleepVariable = "LOAM_TEST_ASLEEP"

// TestUptimeIsOnTheClockOfSystemdsUnits compares the uptime of a machine that
// slept for a day with the time at which systemd has just started a unit.
func TestUptimeIsOnTheClockOfSystemdsUnits(t *testing.T) {
	if os.Getenv(asleepVariable) != "" {
		fmt.Println("uptime", Uptime())
		return
	}
	container.Run(t, uptimeAfterSleep)
}

func uptimeAfterSleep(t *testing.T, c *container.Container) {
	systemd := c.Connect(t)
	const name = "started.service"
	write(t, c.OpenRoot(t), "etc/systemd/system/"+name, "[Service]\nExecStart=sleep infinity\n")
	if err := systemd.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}

	before := uptimeAsleep(t)
	if err := systemd.Start(t.Context(), name); err != nil {
		t.Fatal(err)
	}

	states, err := systemd.Show(t.Context(), []string{name})
	if err != nil {
		t.Fatal(err)
	}

	after := uptimeAsleep(t)
	if since := states[0].Since; since < before || since > after {
		t.Errorf("%s changed at %v, not between the uptimes %v and %v", name, since, before, after)
	}
}

// uptimeAsleep returns the uptime that another process sees, on whose machine
// CLOCK_BOOTTIME is a day ahead of CLOCK_MONOTONIC (time_namespaces(7)).
func uptimeAsleep(t *testing.T) time.Duration {
	t.Helper()
	cmd := exec.Command("unshare", "--time", "--fork", "--boottime", "86400",
		os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), asleepVariable+"=1")

	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("run a process on a machine that slept: %v\n%s", err, out)
	}

	_, text, _ := strings.Cut(string(out), "uptime ")
	line, _, _ := strings.Cut(text, "\n")
	uptime, err := time.ParseDuration(line)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return uptime
}
