package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
)

// available is what TestPXEToMemory says of a node that has applied.
var available = regexp.MustCompile(`memory: \d+ MiB, of which (\d+) MiB are available`)

// installDisk installs the existing build.
var installDisk = benchmark{
	name:   "Install",
	in:     "./agent/install",
	prefix: "install/",
	rounds: 5,
	n:      5,
	figures: []figure{
		{"write", "build", "write-times-dd", 1 / 0.9},
		{"all", "build", "all-times-dd", 1e9},
	},
	conditions: "the packed image of the cloud profile from a file, both on one disk, in turns, " +
		"by O_DIRECT, to empty files; writing is a byte's time, as holes are left out; " +
		"all is the time to unpack into memory, write and read back, " +
		"to that in which dd writes the raw image",
}

// measureLive starts a node that runs from memory, with less and less of it,
// for as long as it gets to "applied".
func measureLive(ctx context.Context, r *report, b *bench) error {
	least := 0
	free := 0.0
	for _, size := range []int{1536, 1280, 1024, 896, 768, 640, 512} {
		found, err := liveWith(ctx, b, size)
		if err != nil && least == 0 {
			return err
		}

		if err != nil {
			break
		}

		least = size
		if size == 1024 {
			free = found
		}
	}

	if err := installDisk.measure(ctx, r); err != nil {
		return err
	}

	const how = "a virtual machine without a disk; system by DHCP and HTTP, /var in memory; " +
		"a configuration with 11 files and 5 units"
	c := conditions(how)
	return r.add(
		result("live/memory", "MiB", 1536,
			"the least of 1536, 1280, 1024, 896, 768, 640, 512 with which it applies", c,
			float64(least)),
		result("live/used", "MiB", 1536,
			"1024 MiB less what is available (/proc/meminfo) when it has applied", c, 1024-free),
	)
}

// liveWith is how much of size MiB is available to a node that has applied.
func liveWith(ctx context.Context, b *bench, size int) (float64, error) {
	build, err := filepath.Abs(out)
	if err != nil {
		return 0, err
	}

	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-run",
		"^TestPXEToMemory$", "./test/node")
	cmd.Env = append(os.Environ(), "CI=true", "LOAM_BUILD="+build, "LOAM_TOOLS_TREE="+b.tools.Dir,
		"LOAM_MEMORY="+strconv.Itoa(size))
	text, err := cmd.CombinedOutput()
	m := available.FindSubmatch(text)
	if err != nil || m == nil {
		return 0, fmt.Errorf("a node with %d MiB: %w\n%s", size, err, bytes.TrimSpace(text))
	}

	return strconv.ParseFloat(string(m[1]), 64)
}
