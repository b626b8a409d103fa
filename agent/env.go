package agent

import (
	"fmt"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/clock"
	"github.com/loam-os/loam/agent/cluster"
	"github.com/loam-os/loam/agent/console"
	"github.com/loam-os/loam/agent/drive"
	"github.com/loam-os/loam/agent/identity"
	"github.com/loam-os/loam/agent/metrics"
	"github.com/loam-os/loam/agent/plane/etcd/disk"
	"github.com/loam-os/loam/agent/plane/local"
	"github.com/loam-os/loam/agent/source"
	"github.com/loam-os/loam/agent/unit"
	"github.com/loam-os/loam/agent/volume"
)

// Env is the node as the agent's process finds it.
type Env struct {
	// Root is the root directory, "/" on a node; Socket is systemd's.
	Root   string
	Socket string
	// Credentials is $CREDENTIALS_DIRECTORY, "" without one.
	Credentials string
	// Drives are those that machine.yaml may be on; nil if none are looked for.
	Drives *identity.Drives
	// Metrics is the address of the metrics, Health of the health check, "" for
	// nowhere.
	Metrics, Health string
	// Consoles are where the status is shown; nil for nowhere.
	Consoles *console.Printer
	// BootID returns the kernel's id of this boot (random(4)).
	BootID func() (string, error)
	// Uptime is the time since kernel start without suspend, Now the wall clock.
	Uptime func() time.Duration
	Now    func() time.Time
	// Built is the date of the image's kernel (clock.Built).
	Built func() (time.Time, error)
	// SetHostname is sethostname(2).
	SetHostname func(name string) error
	// Setenv sets a variable in the environment of this process.
	Setenv func(name, value string) error
	// Fsync measures the disk for etcd.
	Fsync disk.Probe
	// Addresses returns the addresses of the machine for its own cluster, the best
	// one first.
	Addresses func() ([]netip.Addr, error)
	Log       *zap.Logger
}

// NodeEnv is the Env of a real node.
func NodeEnv(log *zap.Logger) Env {
	cluster.Silence()
	consoles, err := console.Open("/dev", "/sys/class/tty/console/active")
	if err != nil {
		log.Warn("no status on a console", zap.Error(err))
	}

	return Env{
		Root:        "/",
		Socket:      unit.PrivateSocket,
		Credentials: os.Getenv("CREDENTIALS_DIRECTORY"),
		Drives:      &identity.Drives{Find: findDrives},
		Consoles:    consoles,
		Metrics:     metrics.Address,
		Health:      metrics.HealthAddress,
		BootID:      readBootID,
		Uptime:      Uptime,
		Now:         time.Now,
		Built:       clock.Built,
		SetHostname: func(name string) error { return unix.Sethostname([]byte(name)) },
		Setenv:      os.Setenv,
		Fsync:       disk.Measure,
		Addresses:   local.Addresses,
		Log:         log,
	}
}

// readBootID is [Env.BootID] of a real node.
func readBootID() (string, error) {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "", fmt.Errorf("read the boot ID: %w", err)
	}
	return strings.TrimSpace(string(id)), nil
}

// Uptime returns the time since kernel start without the time in which the
// machine was suspended. It is CLOCK_MONOTONIC, the clock of systemd's
// StateChangeTimestampMonotonic, because it is compared with [unit.State.Since].
// A unit has no chance to come up while the machine sleeps, so a time limit does
// not include that either.
func Uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0 // Every kernel has the clock.
	}
	return time.Duration(ts.Nano())
}

// FreeMemory gives memory of this process back to the kernel. Pools of the
// libraries let go of theirs at the second collection.
func FreeMemory() {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
}

// configDrive implements [source.Drive].
type configDrive struct{ drive.Drive }

func (d configDrive) Serial() string {
	return volume.Machine{Root: os.DirFS("/")}.Serial(d.Disk)
}

// findDrives finds the drives of this machine.
func findDrives() ([]source.Drive, error) {
	found, err := drive.Find(source.DriveLabels...)
	list := make([]source.Drive, len(found))
	for i, one := range found {
		list[i] = configDrive{one}
	}
	return list, err
}
