package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/loam-os/loam/agent/boot"
	"github.com/loam-os/loam/agent/status"
	"github.com/loam-os/loam/firmware/osrelease"
	"github.com/loam-os/loam/firmware/secureboot"
)

// Uptime is the time since kernel start, suspend included (CLOCK_BOOTTIME).
func Uptime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0 // Every kernel since 2.6.39 has the clock.
	}
	return time.Duration(ts.Nano())
}

// resident is the resident memory of this process in bytes: the second field of
// /proc/self/statm, in pages (proc(5)).
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(fields[1], 10, 64)
	return pages * int64(os.Getpagesize())
}

// image is the part of the status that the image and the boot settle.
func image(root *os.Root) (status.Status, boot.Record, error) {
	text, err := root.ReadFile("usr/lib/os-release")
	if err != nil {
		return status.Status{}, boot.Record{}, fmt.Errorf("read os-release: %w", err)
	}
	release := osrelease.Parse(text)
	if release[osrelease.ImageVersion] == "" {
		return status.Status{}, boot.Record{}, errors.New("read os-release: no IMAGE_VERSION")
	}
	record, err := bootRecord(root)
	if err != nil {
		return status.Status{}, boot.Record{}, err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return status.Status{}, boot.Record{}, fmt.Errorf("uname: %w", err)
	}
	sys, err := fs.Sub(root.FS(), "sys")
	if err != nil {
		return status.Status{}, boot.Record{}, err
	}
	return status.Status{
		ImageID: release[osrelease.ImageID], ImageVersion: release[osrelease.ImageVersion],
		Slot: record.Slot, RootHash: record.RootHash, Warnings: record.Warnings,
		Kernel: unix.ByteSliceToString(name.Release[:]), Hostname: unix.ByteSliceToString(name.Nodename[:]),
		SecureBoot: string(secureboot.ModeOf(sys)),
	}, record, nil
}

// bootRecord reads what /init left; the zero Record where it left nothing, as
// under a plain systemd.
func bootRecord(root *os.Root) (boot.Record, error) {
	text, err := root.ReadFile(strings.TrimPrefix(boot.RecordPath, "/"))
	if errors.Is(err, fs.ErrNotExist) {
		return boot.Record{}, nil
	}
	if err != nil {
		return boot.Record{}, fmt.Errorf("read the boot record: %w", err)
	}
	var record boot.Record
	if err := json.Unmarshal(text, &record); err != nil {
		return boot.Record{}, fmt.Errorf("read the boot record: %w", err)
	}
	return record, nil
}
