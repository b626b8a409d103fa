package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loam-os/loam/test/container"
)

// TestPlanOfARunningNode plans inside a container with real systemd: the image
// is a clone of the root mount, and what units are up is asked.
func TestPlanOfARunningNode(t *testing.T) { container.Run(t, planOfARunningNode) }

func planOfARunningNode(t *testing.T, c *container.Container) {
	writeFile(t, filepath.Join(c.Root, "usr/lib/os-release"), "IMAGE_VERSION=1.2.3\n")
	writeFile(t, filepath.Join(c.Root, "run/test/new.yaml"), head+`  - {path: /etc/a, content: {inline: {data: x}}}
  units:
  - name: systemd-journald.service
  - name: new.service
    content: "[Service]\nExecStart=sleep infinity\n[Install]\nWantedBy=multi-user.target\n"
`)

	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Root, "run/test/loam"), self, 0o755); err != nil {
		t.Fatal(err)
	}

	pid := filepath.Base(filepath.Dir(c.Root))
	out, err := exec.Command("nsenter", "-t", pid, "-m", "-r", "/run/test/loam", "plan",
		"/run/test/new.yaml").CombinedOutput()
	if err != nil {
		t.Fatalf("plan: %v\n%s", err, out)
	}

	const want = `files
  added    /etc/a
  added    /etc/systemd/system/multi-user.target.wants/new.service
  added    /etc/systemd/system/new.service
units
  reload   systemd
  start    new.service               new in the configuration, unit file new.service added
  keep     systemd-journald.service  nothing of it changes
`
	if _, got, _ := strings.Cut(string(out), "\n"); got != want {
		diff := cmp.Diff(want, got)
		t.Errorf("plan (-want +got):\n%s", diff)
	}

	if _, err := os.Lstat(filepath.Join(c.Root, "var/lib/loam")); err == nil {
		t.Error("plan has made /var/lib/loam")
	}
}
