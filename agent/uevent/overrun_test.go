package uevent

import (
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// overrunVariable is set in the part of the test that has a network of its own.
const overrunVariable = "LOAM_TEST_OVERRUN"

// TestOverrunIsAnEvent sends more events of another subsystem than the smallest
// buffer of the kernel holds. Events of disks may be among those that were dropped.
func TestOverrunIsAnEvent(t *testing.T) {
	if os.Getenv(overrunVariable) == "" {
		cmd := exec.Command("unshare", "--user", "--map-root-user", "--net", "--mount",
			os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), overrunVariable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}

	// The files of sysfs are of the network in which it was mounted.
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		t.Fatal(err)
	}
	events, err := Open(Kernel, "block")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	if err := unix.SetsockoptInt(events.fd, unix.SOL_SOCKET, unix.SO_RCVBUF, 1); err != nil {
		t.Fatal(err)
	}

	changed := func(times int) {
		t.Helper()
		for range times {
			err := os.WriteFile("/sys/class/net/lo/uevent", []byte("change"), 0o644)
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	soon := func() time.Time { return time.Now().Add(20 * time.Millisecond) }

	changed(1)
	if events.Wait(soon()) {
		t.Error("an event of a network interface counts")
	}
	changed(1000)
	if !events.Wait(soon()) {
		t.Error("events were dropped, and nothing is observed again")
	}
	if events.Wait(soon()) {
		t.Error("dropped events count twice")
	}

	changed(1000)
	if !events.Next(t.Context()) {
		t.Error("dropped events end the wait")
	}
}

// TestNextWithoutFiles has no room for the file that it waits with.
func TestNextWithoutFiles(t *testing.T) {
	if os.Getenv(overrunVariable) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
		cmd.Env = append(os.Environ(), overrunVariable+"=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
		return
	}

	events, err := Open(Kernel, "block")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Close()
	time.Sleep(time.Nanosecond) // The runtime opens what its timers need.
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: 0}); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if !events.Next(t.Context()) || time.Since(began) != pause {
			t.Errorf("a lack of files ends the wait after %s, want %s", time.Since(began), pause)
		}
	})
}
